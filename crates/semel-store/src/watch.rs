//! Notifications of changes that other nodes make to a record.

use std::fmt;

use tokio::sync::watch;

/// A subscription to the changes of one record, on any node: a reason to read it again.
///
/// It is a hint and no more. Notifications may be late, lost or spurious, so a waiter still polls; but it can
/// poll rarely while the watch [is listening](Self::is_listening).
pub struct Watch {
    state: watch::Receiver<WatchState>,
    is_complete: bool,
    /// Ends the subscription when it is dropped.
    _subscription: Box<dyn Send + Sync>,
}

/// What a store publishes to the watches of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchState {
    /// Whether a change would be notified now.
    pub listening: bool,
    /// The number of notified changes.
    pub changes: u64,
}

// === impl Watch ===

impl Watch {
    /// For stores: a watch that ends when `subscription` is dropped.
    pub fn new(
        state: watch::Receiver<WatchState>,
        subscription: impl Send + Sync + 'static,
    ) -> Self {
        Self { state, is_complete: true, _subscription: Box::new(subscription) }
    }

    /// For stores: some writers may change the record without a notification.
    #[must_use]
    pub fn partial(mut self) -> Self {
        self.is_complete = false;
        self
    }

    /// Whether every writer notifies its changes. If not, poll more often, also while it
    /// [is listening](Self::is_listening).
    pub fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Whether a change would be notified now.
    pub fn is_listening(&self) -> bool {
        self.state.borrow().listening
    }

    /// Waits for a reason to read the record again: a change was notified, or the watch began or stopped
    /// listening. Cancel-safe: no notification is lost.
    pub async fn reason(&mut self) {
        if self.state.changed().await.is_err() {
            // The store is gone and will publish nothing.
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("state", &*self.state.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn changes_before_the_wait_are_notified_once() {
        let sender = watch::Sender::new(WatchState::default());
        let mut watch = Watch::new(sender.subscribe(), ());
        sender.send_modify(|state| state.listening = true);
        sender.send_modify(|state| state.changes += 1);
        watch.reason().await;
        assert!(watch.is_listening());
        let again = tokio::time::timeout(std::time::Duration::ZERO, watch.reason()).await;
        assert!(again.is_err());
    }
}
