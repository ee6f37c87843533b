//! The queue of pushed messages between connection and subscriber.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::PushInfo;
use tokio::sync::mpsc;

/// Pushed messages that are not handled yet. The queue ends with the connection, or on overflow: a
/// dropped message may have been important, so all subscriptions start over.
#[derive(Debug)]
pub(super) struct Pushes {
    waiting: mpsc::Receiver<PushInfo>,
    is_overrun: Arc<AtomicBool>,
}

/// The queue is full.
#[derive(Debug)]
pub(super) struct Overrun;

/// A queue of this capacity, and the function that appends without waiting.
pub(super) fn pushes(max: usize) -> (impl Fn(PushInfo) -> Result<(), Overrun>, Pushes) {
    let (sender, waiting) = mpsc::channel(max);
    let is_overrun = Arc::new(AtomicBool::new(false));
    let noted = is_overrun.clone();
    let push = move |info| {
        sender.try_send(info).map_err(|_| {
            noted.store(true, Ordering::Release);
            Overrun
        })
    };
    (push, Pushes { waiting, is_overrun })
}

// === impl Pushes ===

impl Pushes {
    pub(super) async fn recv(&mut self) -> Option<PushInfo> {
        if self.is_overrun.load(Ordering::Acquire) {
            return None;
        }
        self.waiting.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> PushInfo {
        PushInfo { kind: redis::PushKind::SMessage, data: Vec::new() }
    }

    #[tokio::test]
    async fn pushed_messages_are_received_until_the_connection_ends() {
        let (push, mut pushes) = pushes(2);
        push(message()).unwrap();
        assert!(pushes.recv().await.is_some());
        push(message()).unwrap();
        push(message()).unwrap();
        drop(push);
        assert!(pushes.recv().await.is_some());
        assert!(pushes.recv().await.is_some());
        assert!(pushes.recv().await.is_none());
    }

    /// I10: the queue is bounded, and nothing is dropped silently.
    #[tokio::test]
    async fn an_overflow_ends_the_connection() {
        let (push, mut pushes) = pushes(2);
        push(message()).unwrap();
        push(message()).unwrap();
        push(message()).unwrap_err();
        assert!(pushes.recv().await.is_none());
    }
}
