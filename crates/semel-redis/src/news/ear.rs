//! The connection on which one server is listened to.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::Duration;

use redis::{ErrorKind, PushInfo, PushKind, RedisError, ServerErrorKind, Value};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

use super::pushes::{Pushes, pushes};
use super::{Key, News};
use crate::connection::{Dial, Hearing};
use crate::url::Endpoint;

/// What an ear is asked to do.
#[derive(Debug)]
pub(super) enum Ask {
    Listen(Key),
    Leave(Key),
}

/// An ear at one server, for as long as its connection lasts.
struct Ear {
    news: Weak<News>,
    limit: Duration,
    /// What was asked for, and has been answered by when more is asked.
    wanted: HashSet<Key>,
}

/// The connection is of no more use.
struct Broken;

/// How long a connection is kept to which nobody listens.
const IDLE: Duration = Duration::from_secs(30);
/// After how long a silence the server is asked whether it is still there. A host that froze or was cut off
/// says nothing, and that is also what there is to hear while nothing happens.
const QUIET: Duration = Duration::from_secs(5);
/// How many news may wait to be heard (I10): those of a second or so in which a server says nothing else. Who
/// is further behind begins anew.
const PUSHES_MAX: usize = 16_384;
/// How many channels are asked for at once.
const TOGETHER_MAX: usize = 256;

/// Listens until nobody wants to hear anything more, or the connection breaks. Then whoever still wants
/// to is looked after anew: another server may have the key by now.
pub(super) async fn run(news: Weak<News>, endpoint: Endpoint, dial: Dial, mut asks: Receiver<Ask>) {
    let mut ear = Ear { news, limit: dial.limit, wanted: HashSet::new() };
    let (push, pushes) = pushes(PUSHES_MAX);
    match dial.connect_hearing(&endpoint, push).await {
        Ok(connection) => {
            let Broken = ear.hear(&connection, pushes, &mut asks).await;
        }
        Err(error) => tracing::debug!(%error, "it cannot be listened to"),
    }
    // Whoever asks now makes another ear.
    asks.close();
    while let Some(ask) = asks.recv().await {
        ear.note(&ask);
    }
    for key in ear.wanted.clone() {
        ear.elsewhere(&key);
    }
}

// === impl Ask ===

impl Ask {
    const fn key(&self) -> &Key {
        match self {
            Self::Listen(key) | Self::Leave(key) => key,
        }
    }

    /// What the server is asked, and how it confirms that.
    const fn question(&self) -> (&'static str, PushKind) {
        match self {
            Self::Listen(_) => ("SSUBSCRIBE", PushKind::SSubscribe),
            Self::Leave(_) => ("SUNSUBSCRIBE", PushKind::SUnsubscribe),
        }
    }
}

// === impl Ear ===

impl Ear {
    async fn hear(
        &mut self,
        connection: &Hearing,
        mut pushes: Pushes,
        asks: &mut Receiver<Ask>,
    ) -> Broken {
        loop {
            let is_wanted = !self.wanted.is_empty();
            let done = tokio::select! {
                // What was said before is heard before.
                biased;
                push = pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => {
                        self.pushed(&push);
                        Ok(())
                    }
                    _ => Err(Broken),
                },
                ask = asks.recv() => match ask {
                    Some(ask) => {
                        let together = self.together(ask, asks);
                        self.ask(connection, &together).await
                    }
                    None => Err(Broken),
                },
                () = sleep(QUIET), if is_wanted => self.ping(connection).await,
                () = sleep(IDLE), if !is_wanted => Err(Broken),
            };
            if let Err(Broken) = done {
                return Broken;
            }
        }
    }

    /// All that is asked for now and changes anything. Of each key the latest counts, so each is in it once:
    /// what the server says about it has to be heard before it is asked for again.
    fn together(&mut self, first: Ask, asks: &mut Receiver<Ask>) -> Vec<Ask> {
        let mut latest = HashMap::from([(first.key().clone(), first)]);
        while latest.len() < TOGETHER_MAX
            && let Ok(ask) = asks.try_recv()
        {
            latest.insert(ask.key().clone(), ask);
        }
        let mut together = Vec::new();
        for ask in latest.into_values() {
            let is_news = self.note(&ask);
            match &ask {
                // Whoever has come after that is not to rely on it.
                Ask::Leave(key) if is_news => self.tell(key, false),
                // One left and another came: it was listened to all the time.
                Ask::Listen(key) if !is_news => self.tell(key, true),
                Ask::Listen(_) | Ask::Leave(_) => {}
            }
            if is_news {
                together.push(ask);
            }
        }
        together
    }

    /// Does it change anything?
    fn note(&mut self, ask: &Ask) -> bool {
        match ask {
            Ask::Listen(key) => self.wanted.insert(key.clone()),
            Ask::Leave(key) => self.wanted.remove(key),
        }
    }

    /// Asks the server for all of them in one message.
    async fn ask(&mut self, connection: &Hearing, together: &[Ask]) -> Result<(), Broken> {
        if together.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for ask in together {
            commands.cmd(ask.question().0).arg(&**ask.key());
        }
        let Ok(Ok(answers)) = timeout(self.limit, connection.ask_all(&commands)).await else {
            return Err(Broken);
        };
        for (ask, answer) in together.iter().zip(answers) {
            self.answered(ask, answer.extract_error())?;
        }
        Ok(())
    }

    /// A channel that is not here is looked for elsewhere.
    fn answered(&mut self, ask: &Ask, answer: Result<Value, RedisError>) -> Result<(), Broken> {
        match (ask, answer) {
            (_, Ok(Value::Push { kind, data }))
                if kind == ask.question().1 && is_of(&data, ask.key()) =>
            {
                if let Ask::Listen(key) = ask {
                    self.tell(key, true);
                }
            }
            (Ask::Listen(key), Err(error)) => match error.kind() {
                // Then they have to look by themselves.
                ErrorKind::Server(ServerErrorKind::NoPerm) => {
                    self.wanted.remove(key);
                }
                ErrorKind::Server(_) => self.elsewhere(key),
                _ => return Err(Broken),
            },
            (Ask::Leave(_), Err(error)) if matches!(error.kind(), ErrorKind::Server(_)) => {}
            // What the server says unasked is taken for an answer, and then all that follow are, too.
            _ => return Err(Broken),
        }
        Ok(())
    }

    /// Is the server still there? Whatever it says to that, it is.
    async fn ping(&self, connection: &Hearing) -> Result<(), Broken> {
        let asked = timeout(self.limit, connection.ask(&redis::cmd("PING"))).await;
        match asked.map_err(|_| Broken)? {
            // Said unasked.
            Ok(Value::Push { .. }) => Err(Broken),
            Ok(_) => Ok(()),
            Err(error) if matches!(error.kind(), ErrorKind::Server(_)) => Ok(()),
            Err(_) => Err(Broken),
        }
    }

    fn pushed(&mut self, push: &PushInfo) {
        let Some(Value::BulkString(key)) = push.data.first() else {
            return;
        };
        match push.kind {
            PushKind::SMessage => {
                if let Some(news) = self.news.upgrade() {
                    news.tell(key, |told| told.changes += 1);
                }
            }
            // If it is wanted, nobody has asked for this: its slot has gone to another server.
            PushKind::SUnsubscribe => {
                if let Some(key) = self.wanted.get(key.as_slice()).cloned() {
                    self.elsewhere(&key);
                }
            }
            _ => {}
        }
    }

    /// Whoever relies on this ear for a key has to look by itself, until another is found.
    fn elsewhere(&mut self, key: &Key) {
        self.tell(key, false);
        self.wanted.remove(key);
        if let Some(news) = self.news.upgrade() {
            news.listen_later(key.clone());
        }
    }

    fn tell(&self, key: &Key, listening: bool) {
        if let Some(news) = self.news.upgrade() {
            news.tell(key, |told| told.listening = listening);
        }
    }
}

/// Is it about this key?
fn is_of(data: &[Value], key: &Key) -> bool {
    matches!(data.first(), Some(Value::BulkString(found)) if found.as_slice() == &**key)
}
