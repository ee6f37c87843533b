//! The subscriber: one connection to one server for all its channels.

use std::collections::{HashMap, HashSet};
use std::sync::Weak;
use std::time::Duration;

use redis::{ErrorKind, PushInfo, PushKind, RedisError, ServerErrorKind, Value};
use tokio::sync::mpsc::Receiver;
use tokio::time::{sleep, timeout};

use super::pushes::{Pushes, pushes};
use super::{Key, Notifications};
use crate::connection::{Connector, PubSubConnection};
use crate::url::Endpoint;

/// A change of the subscriptions.
#[derive(Debug)]
pub(super) enum Command {
    Subscribe(Key),
    Unsubscribe(Key),
}

/// The subscriber of one server, for the lifetime of its connection.
struct Subscriber {
    notifications: Weak<Notifications>,
    limit: Duration,
    /// The channels that are subscribed to, or about to be.
    subscribed: HashSet<Key>,
}

/// The connection failed.
struct Broken;

/// How long a connection without subscriptions is kept.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// The silence after which the server is pinged. An unresponsive or disconnected host sends nothing, and
/// so does an idle one.
const PING_AFTER: Duration = Duration::from_secs(5);
/// The capacity of the queue of pushed messages (I10): about a second of traffic. A subscriber that falls
/// further behind starts over.
const PUSHES_MAX: usize = 16_384;
/// The maximum number of commands in one batch.
const BATCH_MAX: usize = 256;

/// Runs until all watchers are gone or the connection breaks. The remaining keys are then relocated,
/// because another server may have them by now.
pub(super) async fn run(
    notifications: Weak<Notifications>,
    endpoint: Endpoint,
    connector: Connector,
    mut commands: Receiver<Command>,
) {
    let mut subscriber =
        Subscriber { notifications, limit: connector.limit, subscribed: HashSet::new() };
    let (push, pushes) = pushes(PUSHES_MAX);
    match connector.connect_pub_sub(&endpoint, push).await {
        Ok(connection) => {
            let Broken = subscriber.serve(&connection, pushes, &mut commands).await;
        }
        Err(error) => tracing::debug!(%error, "cannot subscribe"),
    }
    // Later commands start another subscriber.
    commands.close();
    while let Some(command) = commands.recv().await {
        subscriber.apply(&command);
    }
    for key in subscriber.subscribed.clone() {
        subscriber.relocate(&key);
    }
}

// === impl Command ===

impl Command {
    const fn key(&self) -> &Key {
        match self {
            Self::Subscribe(key) | Self::Unsubscribe(key) => key,
        }
    }

    /// The Redis command, and the kind of its confirmation.
    const fn wire_form(&self) -> (&'static str, PushKind) {
        match self {
            Self::Subscribe(_) => ("SSUBSCRIBE", PushKind::SSubscribe),
            Self::Unsubscribe(_) => ("SUNSUBSCRIBE", PushKind::SUnsubscribe),
        }
    }
}

// === impl Subscriber ===

impl Subscriber {
    async fn serve(
        &mut self,
        connection: &PubSubConnection,
        mut pushes: Pushes,
        commands: &mut Receiver<Command>,
    ) -> Broken {
        loop {
            let is_wanted = !self.subscribed.is_empty();
            let done = tokio::select! {
                // Messages that were pushed earlier are handled earlier.
                biased;
                push = pushes.recv() => match push {
                    Some(push) if push.kind != PushKind::Disconnection => {
                        self.pushed(&push);
                        Ok(())
                    }
                    _ => Err(Broken),
                },
                command = commands.recv() => match command {
                    Some(command) => {
                        let batch = self.batch(command, commands);
                        self.send(connection, &batch).await
                    }
                    None => Err(Broken),
                },
                () = sleep(PING_AFTER), if is_wanted => self.ping(connection).await,
                () = sleep(IDLE_MAX), if !is_wanted => Err(Broken),
            };
            if let Err(Broken) = done {
                return Broken;
            }
        }
    }

    /// Collects the queued commands that change something. The latest command of each key counts, so that
    /// each key is in the batch once: its confirmation must arrive before the next command for it.
    fn batch(&mut self, first: Command, commands: &mut Receiver<Command>) -> Vec<Command> {
        let mut latest = HashMap::from([(first.key().clone(), first)]);
        while latest.len() < BATCH_MAX
            && let Ok(command) = commands.try_recv()
        {
            latest.insert(command.key().clone(), command);
        }
        let mut batch = Vec::new();
        for command in latest.into_values() {
            let is_change = self.apply(&command);
            match &command {
                // Later watchers must not rely on this subscription.
                Command::Unsubscribe(key) if is_change => self.publish(key, false),
                // One watcher left and another came: the subscription never ended.
                Command::Subscribe(key) if !is_change => self.publish(key, true),
                Command::Subscribe(_) | Command::Unsubscribe(_) => {}
            }
            if is_change {
                batch.push(command);
            }
        }
        batch
    }

    /// Whether the command changes anything.
    fn apply(&mut self, command: &Command) -> bool {
        match command {
            Command::Subscribe(key) => self.subscribed.insert(key.clone()),
            Command::Unsubscribe(key) => self.subscribed.remove(key),
        }
    }

    /// Sends all of them in one batch.
    async fn send(
        &mut self,
        connection: &PubSubConnection,
        batch: &[Command],
    ) -> Result<(), Broken> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut commands = redis::pipe();
        for command in batch {
            commands.cmd(command.wire_form().0).arg(&**command.key());
        }
        let Ok(Ok(answers)) = timeout(self.limit, connection.send_all(&commands)).await else {
            return Err(Broken);
        };
        for (command, answer) in batch.iter().zip(answers) {
            self.answered(command, answer.extract_error())?;
        }
        Ok(())
    }

    /// Handles a confirmation. A channel of another server is relocated.
    fn answered(
        &mut self,
        command: &Command,
        answer: Result<Value, RedisError>,
    ) -> Result<(), Broken> {
        match (command, answer) {
            (_, Ok(Value::Push { kind, data }))
                if kind == command.wire_form().1 && is_of(&data, command.key()) =>
            {
                if let Command::Subscribe(key) = command {
                    self.publish(key, true);
                }
            }
            (Command::Subscribe(key), Err(error)) => match error.kind() {
                // The watchers have to poll.
                ErrorKind::Server(ServerErrorKind::NoPerm) => {
                    self.subscribed.remove(key);
                }
                ErrorKind::Server(_) => self.relocate(key),
                _ => return Err(Broken),
            },
            (Command::Unsubscribe(_), Err(error))
                if matches!(error.kind(), ErrorKind::Server(_)) => {}
            // An unexpected message was taken for a reply; all later replies would be shifted.
            _ => return Err(Broken),
        }
        Ok(())
    }

    /// Whether the server still responds; any reply will do.
    async fn ping(&self, connection: &PubSubConnection) -> Result<(), Broken> {
        let replied = timeout(self.limit, connection.send(&redis::cmd("PING"))).await;
        match replied.map_err(|_| Broken)? {
            // An unexpected message.
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
                if let Some(notifications) = self.notifications.upgrade() {
                    notifications.publish(key, |state| state.changes += 1);
                }
            }
            // Not requested if the key is still subscribed: its slot has moved to another server.
            PushKind::SUnsubscribe => {
                if let Some(key) = self.subscribed.get(key.as_slice()).cloned() {
                    self.relocate(&key);
                }
            }
            _ => {}
        }
    }

    /// Stops the subscription of a key here and looks up its server again. Its watchers have to poll
    /// until then.
    fn relocate(&mut self, key: &Key) {
        self.publish(key, false);
        self.subscribed.remove(key);
        if let Some(notifications) = self.notifications.upgrade() {
            notifications.subscribe_later(key.clone());
        }
    }

    fn publish(&self, key: &Key, listening: bool) {
        if let Some(notifications) = self.notifications.upgrade() {
            notifications.publish(key, |state| state.listening = listening);
        }
    }
}

/// Whether the confirmation is about this key.
fn is_of(data: &[Value], key: &Key) -> bool {
    matches!(data.first(), Some(Value::BulkString(found)) if found.as_slice() == &**key)
}
