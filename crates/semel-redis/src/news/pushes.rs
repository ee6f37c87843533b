//! What a server says unasked, on its way to the ear.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::PushInfo;
use tokio::sync::mpsc;

/// Pushes that wait to be heard. They end with the connection, or when more came than may wait: what was
/// not kept may have been important, so everything has to be asked for anew.
#[derive(Debug)]
pub(super) struct Pushes {
    waiting: mpsc::Receiver<PushInfo>,
    is_overrun: Arc<AtomicBool>,
}

/// There was no room for it.
#[derive(Debug)]
pub(super) struct Overrun;

/// Room for so many, and how they are put there without waiting.
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

    fn news() -> PushInfo {
        PushInfo { kind: redis::PushKind::SMessage, data: Vec::new() }
    }

    #[tokio::test]
    async fn what_has_room_is_heard_until_the_connection_ends() {
        let (push, mut pushes) = pushes(2);
        push(news()).unwrap();
        assert!(pushes.recv().await.is_some());
        push(news()).unwrap();
        push(news()).unwrap();
        drop(push);
        assert!(pushes.recv().await.is_some());
        assert!(pushes.recv().await.is_some());
        assert!(pushes.recv().await.is_none());
    }

    /// I10: neither is it kept without end, nor is it lost unnoticed.
    #[tokio::test]
    async fn what_has_no_room_ends_the_connection() {
        let (push, mut pushes) = pushes(2);
        push(news()).unwrap();
        push(news()).unwrap();
        push(news()).unwrap_err();
        assert!(pushes.recv().await.is_none());
    }
}
