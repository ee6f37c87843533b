//! Hearing that records change on other nodes.
//!
//! The scripts say so on a channel of the record's own, a sharded one: it is where the key is, and only
//! there. Whoever waits for a record listens to its channel, on a connection that does nothing else, one
//! per server (`ear`). All who wait for the same record share it.

mod ear;
mod pushes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use semel_store::{Told, Watch};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::server::Server;
use crate::topology::Topology;
use crate::url::Endpoint;

use ear::Ask;

/// A channel, which has the name of the key.
type Key = Arc<[u8]>;
type Channels = HashMap<Key, Channel>;

/// All that is listened to.
#[derive(Debug)]
pub(crate) struct News {
    topology: Arc<Topology>,
    channels: Mutex<Channels>,
    ears: Mutex<HashMap<Endpoint, mpsc::Sender<Ask>>>,
}

#[derive(Debug)]
struct Channel {
    told: watch::Sender<Told>,
    watchers: usize,
    /// Who was asked to listen.
    at: Option<Endpoint>,
}

/// One who watches.
struct Watcher {
    news: Weak<News>,
    key: Key,
}

/// How many may come and go before an ear, which asks for many at once, has taken note (I10).
const ASKS_MAX: usize = 16_384;
/// How long to wait before a channel is looked for elsewhere.
const MOVED_PAUSE: Duration = Duration::from_millis(200);

// === impl News ===

impl News {
    pub(crate) fn new(topology: Arc<Topology>) -> Arc<Self> {
        Arc::new(Self { topology, channels: Mutex::default(), ears: Mutex::default() })
    }

    /// Listens to the channel of a key, for as long as anybody does.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>) -> Watch {
        let key: Key = key.into();
        let mut channels = self.channels();
        let is_new = !channels.contains_key(&key);
        let channel = channels.entry(key.clone()).or_insert_with(|| Channel {
            told: watch::Sender::new(Told::default()),
            watchers: 0,
            at: None,
        });
        channel.watchers += 1;
        let told = channel.told.subscribe();
        if is_new {
            self.listen(&mut channels, &key);
        }
        drop(channels);
        Watch::new(told, Watcher { news: Arc::downgrade(self), key })
    }

    /// Has the server listened to that has the key now. Whoever asks an ear for something holds the
    /// channels: so it hears of them in the order in which they came and went.
    fn listen(self: &Arc<Self>, channels: &mut Channels, key: &Key) {
        let Some(channel) = channels.get_mut(key) else {
            // Everybody has left meanwhile.
            return;
        };
        match self.topology.server_now(key) {
            Some(server) => {
                channel.at = Some(server.endpoint().clone());
                self.send(&server, Ask::Listen(key.clone()));
            }
            None => self.listen_later(key.clone()),
        }
    }

    /// The same when its server may have changed.
    fn listen_later(self: &Arc<Self>, key: Key) {
        let news = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(MOVED_PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
            if let Some(news) = news.upgrade() {
                news.listen(&mut news.channels(), &key);
            }
        });
    }

    fn leave(&self, key: &Key) {
        let mut channels = self.channels();
        let Some(channel) = channels.get_mut(key) else {
            return;
        };
        channel.watchers -= 1;
        if channel.watchers > 0 {
            return;
        }
        if let Some(at) = channels.remove(key).and_then(|channel| channel.at)
            && let Some(ear) = self.ear_at(&at)
        {
            // One that is too far behind to be told begins anew, without the keys that nobody watches.
            let unsent = ear.try_send(Ask::Leave(key.clone()));
            if matches!(unsent, Err(TrySendError::Full(_))) {
                self.ears().remove(&at);
            }
        }
    }

    /// Tells those who watch a key.
    fn tell(&self, key: &[u8], change: impl FnOnce(&mut Told)) {
        if let Some(channel) = self.channels().get(key) {
            // Who is told the same again would look for nothing.
            channel.told.send_if_modified(|told| {
                let before = *told;
                change(told);
                *told != before
            });
        }
    }

    /// Hands something to the ear at a server, which is made if there is none, or none any more.
    fn send(self: &Arc<Self>, server: &Server, mut ask: Ask) {
        let mut ears = self.ears();
        if let Some(ear) = ears.get(server.endpoint()) {
            match ear.try_send(ask) {
                Ok(()) => return,
                // Too far behind, or ended. What it was asked for before, it sees to: it looks for it
                // elsewhere, which is here.
                Err(TrySendError::Full(unsent) | TrySendError::Closed(unsent)) => ask = unsent,
            }
        }
        let (sender, asks) = mpsc::channel(ASKS_MAX);
        // The other end is here and has room, so it takes it.
        let _ = sender.try_send(ask);
        ears.retain(|_, ear| !ear.is_closed());
        ears.insert(server.endpoint().clone(), sender);
        let dial = self.topology.options().dial();
        tokio::spawn(ear::run(Arc::downgrade(self), server.endpoint().clone(), dial, asks));
    }

    fn ear_at(&self, endpoint: &Endpoint) -> Option<mpsc::Sender<Ask>> {
        self.ears().get(endpoint).cloned()
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ears(&self) -> MutexGuard<'_, HashMap<Endpoint, mpsc::Sender<Ask>>> {
        self.ears.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(news) = self.news.upgrade() {
            news.leave(&self.key);
        }
    }
}
