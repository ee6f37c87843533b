//! Notifications that records have changed on other nodes.
//!
//! The scripts publish on a sharded channel named after the record's key, so it lives on the key's server
//! only. A task that waits for a record subscribes to its channel, on a dedicated connection per server
//! (`subscriber`). All tasks that wait for the same record share the subscription.

mod pushes;
mod subscriber;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use semel_store::{Watch, WatchState};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::server::Server;
use crate::topology::Topology;
use crate::url::Endpoint;

use subscriber::Command;

/// A channel name, which is the key.
type Key = Arc<[u8]>;
type Channels = HashMap<Key, Channel>;

/// All subscriptions.
#[derive(Debug)]
pub(crate) struct Notifications {
    topology: Arc<Topology>,
    channels: Mutex<Channels>,
    subscribers: Mutex<HashMap<Endpoint, mpsc::Sender<Command>>>,
}

#[derive(Debug)]
struct Channel {
    state: watch::Sender<WatchState>,
    watchers: usize,
    /// The server of the subscription.
    at: Option<Endpoint>,
}

/// Ends the subscription when the last watcher is dropped.
struct Watcher {
    notifications: Weak<Notifications>,
    key: Key,
}

/// The capacity of a subscriber's command queue, which it drains in batches (I10).
const COMMANDS_MAX: usize = 16_384;
/// The pause before a channel is looked up again.
const MOVED_PAUSE: Duration = Duration::from_millis(200);

// === impl Notifications ===

impl Notifications {
    pub(crate) fn new(topology: Arc<Topology>) -> Arc<Self> {
        Arc::new(Self { topology, channels: Mutex::default(), subscribers: Mutex::default() })
    }

    /// Subscribes to the channel of a key until the last watch is dropped.
    pub(crate) fn watch(self: &Arc<Self>, key: Vec<u8>) -> Watch {
        let key: Key = key.into();
        let mut channels = self.channels();
        let is_new = !channels.contains_key(&key);
        let channel = channels.entry(key.clone()).or_insert_with(|| Channel {
            state: watch::Sender::new(WatchState::default()),
            watchers: 0,
            at: None,
        });
        channel.watchers += 1;
        let state = channel.state.subscribe();
        if is_new {
            self.subscribe(&mut channels, &key);
        }
        drop(channels);
        Watch::new(state, Watcher { notifications: Arc::downgrade(self), key })
    }

    /// Subscribes at the server that has the key now. The channels stay locked while commands are queued,
    /// so that a subscriber gets them in order.
    fn subscribe(self: &Arc<Self>, channels: &mut Channels, key: &Key) {
        let Some(channel) = channels.get_mut(key) else {
            // All watchers have left meanwhile.
            return;
        };
        match self.topology.server_now(key) {
            Some(server) => {
                channel.at = Some(server.endpoint().clone());
                self.send(&server, Command::Subscribe(key.clone()));
            }
            None => self.subscribe_later(key.clone()),
        }
    }

    /// The same after a pause, because the slot may move.
    fn subscribe_later(self: &Arc<Self>, key: Key) {
        let notifications = Arc::downgrade(self);
        tokio::spawn(async move {
            sleep(MOVED_PAUSE.mul_f64(rand::random_range(0.5..1.5))).await;
            if let Some(notifications) = notifications.upgrade() {
                notifications.subscribe(&mut notifications.channels(), &key);
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
            && let Some(subscriber) = self.subscriber_at(&at)
        {
            // A subscriber whose queue is full is replaced; the new one gets only the keys that are still
            // watched.
            let unsent = subscriber.try_send(Command::Unsubscribe(key.clone()));
            if matches!(unsent, Err(TrySendError::Full(_))) {
                self.subscribers().remove(&at);
            }
        }
    }

    /// Notifies the watchers of a key.
    fn publish(&self, key: &[u8], change: impl FnOnce(&mut WatchState)) {
        if let Some(channel) = self.channels().get(key) {
            // An unchanged state must not wake them for nothing.
            channel.state.send_if_modified(|state| {
                let before = *state;
                change(state);
                *state != before
            });
        }
    }

    /// Queues a command for the subscriber of a server, which is started if there is none.
    fn send(self: &Arc<Self>, server: &Server, mut command: Command) {
        let mut subscribers = self.subscribers();
        if let Some(subscriber) = subscribers.get(server.endpoint()) {
            match subscriber.try_send(command) {
                Ok(()) => return,
                // Its queue is full, or it has ended. It relocates its earlier keys by itself, and they
                // come back here.
                Err(TrySendError::Full(unsent) | TrySendError::Closed(unsent)) => command = unsent,
            }
        }
        let (sender, commands) = mpsc::channel(COMMANDS_MAX);
        // The receiver is in this scope and the queue is empty.
        let _ = sender.try_send(command);
        subscribers.retain(|_, subscriber| !subscriber.is_closed());
        subscribers.insert(server.endpoint().clone(), sender);
        let connector = self.topology.options().connector();
        tokio::spawn(subscriber::run(
            Arc::downgrade(self),
            server.endpoint().clone(),
            connector,
            commands,
        ));
    }

    fn subscriber_at(&self, endpoint: &Endpoint) -> Option<mpsc::Sender<Command>> {
        self.subscribers().get(endpoint).cloned()
    }

    fn channels(&self) -> MutexGuard<'_, Channels> {
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn subscribers(&self) -> MutexGuard<'_, HashMap<Endpoint, mpsc::Sender<Command>>> {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(notifications) = self.notifications.upgrade() {
            notifications.leave(&self.key);
        }
    }
}
