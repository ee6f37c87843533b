//! The connection on which one server is listened to.

use std::collections::HashSet;
use std::sync::Weak;
use std::time::Duration;

use redis::{ErrorKind, PushInfo, PushKind, RedisError, ServerErrorKind, Value};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{sleep, timeout};

use super::{Key, News};
use crate::connection::{Connection, Dial};
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
    wanted: HashSet<Key>,
}

/// The connection is of no more use.
struct Broken;

/// What is asked, and how it is confirmed.
const SUBSCRIBE: (&str, PushKind) = ("SSUBSCRIBE", PushKind::SSubscribe);
const UNSUBSCRIBE: (&str, PushKind) = ("SUNSUBSCRIBE", PushKind::SUnsubscribe);
/// How long a connection is kept to which nobody listens.
const IDLE: Duration = Duration::from_secs(30);

/// Listens until nobody wants to hear anything more, or the connection breaks. Then whoever still wants
/// to is looked after anew: another server may have the key by now.
pub(super) async fn run(
    news: Weak<News>,
    endpoint: Endpoint,
    dial: Dial,
    mut asks: UnboundedReceiver<Ask>,
) {
    let mut ear = Ear { news, limit: dial.limit, wanted: HashSet::new() };
    let (sender, pushes) = unbounded_channel();
    match dial.connect_hearing(&endpoint, sender).await {
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

// === impl Ear ===

impl Ear {
    async fn hear(
        &mut self,
        connection: &Connection,
        mut pushes: UnboundedReceiver<PushInfo>,
        asks: &mut UnboundedReceiver<Ask>,
    ) -> Broken {
        loop {
            tokio::select! {
                // What was said before is heard before.
                biased;
                push = pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => self.pushed(&push),
                    _ => return Broken,
                },
                ask = asks.recv() => {
                    let Some(ask) = ask else {
                        return Broken;
                    };
                    let is_news = self.note(&ask);
                    let done = match &ask {
                        _ if !is_news => Ok(()),
                        Ask::Listen(key) => self.listen(connection, key).await,
                        Ask::Leave(key) => self.ask(connection, UNSUBSCRIBE, key).await.map(drop),
                    };
                    if let Err(Broken) = done {
                        return Broken;
                    }
                }
                () = sleep(IDLE), if self.wanted.is_empty() => return Broken,
            }
        }
    }

    /// Does it change anything?
    fn note(&mut self, ask: &Ask) -> bool {
        match ask {
            Ask::Listen(key) => self.wanted.insert(key.clone()),
            Ask::Leave(key) => self.wanted.remove(key),
        }
    }

    /// Listens to a channel. One that is not here is looked for elsewhere.
    async fn listen(&mut self, connection: &Connection, key: &Key) -> Result<(), Broken> {
        match self.ask(connection, SUBSCRIBE, key).await? {
            Ok(()) => self.tell(key, true),
            // Then they have to look by themselves.
            Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm) => {
                self.wanted.remove(key);
            }
            Err(_) => self.elsewhere(key),
        }
        Ok(())
    }

    /// Asks the server something, which it may refuse.
    async fn ask(
        &self,
        connection: &Connection,
        (what, confirmed): (&str, PushKind),
        key: &Key,
    ) -> Result<Result<(), RedisError>, Broken> {
        let mut command = redis::cmd(what);
        command.arg(&**key);
        let answer = match timeout(self.limit, connection.ask(&command)).await {
            Ok(Ok(answer)) => answer.extract_error(),
            Ok(Err(error)) => Err(error),
            Err(_) => return Err(Broken),
        };
        match answer {
            Ok(Value::Push { kind, data }) if kind == confirmed && is_of(&data, key) => Ok(Ok(())),
            Err(error) if matches!(error.kind(), ErrorKind::Server(_)) => Ok(Err(error)),
            // What the server says unasked is taken for an answer, and then all that follow are, too.
            Ok(_) | Err(_) => Err(Broken),
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
