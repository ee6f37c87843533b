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
    while let Ok(ask) = asks.try_recv() {
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
                push = pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => self.pushed(&push),
                    _ => return Broken,
                },
                ask = asks.recv() => {
                    let Some(ask) = ask else {
                        return Broken;
                    };
                    self.note(&ask);
                    let done = match &ask {
                        Ask::Listen(key) => self.listen(connection, key).await,
                        Ask::Leave(key) => self.ask(connection, "SUNSUBSCRIBE", key).await.map(drop),
                    };
                    if let Err(Broken) = done {
                        return Broken;
                    }
                }
                () = sleep(IDLE), if self.wanted.is_empty() => return Broken,
            }
        }
    }

    fn note(&mut self, ask: &Ask) {
        match ask {
            Ask::Listen(key) => self.wanted.insert(key.clone()),
            Ask::Leave(key) => self.wanted.remove(key),
        };
    }

    /// Listens to a channel. One that is not here is looked for elsewhere.
    async fn listen(&mut self, connection: &Connection, key: &Key) -> Result<(), Broken> {
        match self.ask(connection, "SSUBSCRIBE", key).await? {
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
        what: &str,
        key: &Key,
    ) -> Result<Result<(), RedisError>, Broken> {
        let mut command = redis::cmd(what);
        command.arg(&**key);
        match timeout(self.limit, connection.ask(&command)).await {
            Ok(Ok(answer)) => Ok(answer.extract_error().map(drop)),
            Ok(Err(error)) if matches!(error.kind(), ErrorKind::Server(_)) => Ok(Err(error)),
            Ok(Err(_)) | Err(_) => Err(Broken),
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
