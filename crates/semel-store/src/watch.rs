//! Hearing of what happens to a record on other nodes.

use std::fmt;

use tokio::sync::watch;

/// Hears that a record may have changed, wherever that was: a reason to look at it again.
///
/// It is a hint and no more. News may be late, lost or about nothing, so whoever watches still looks by
/// itself now and then; but it can take its time while the watch [is listening](Self::is_listening).
pub struct Watch {
    told: watch::Receiver<Told>,
    hears_all: bool,
    /// Ends the watch when it is dropped.
    _kept: Box<dyn Send + Sync>,
}

/// What a store tells those who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Would a change be heard now?
    pub listening: bool,
    /// Rises with each.
    pub changes: u64,
}

// === impl Watch ===

impl Watch {
    /// For stores: a watch that ends when `kept` is dropped.
    pub fn new(told: watch::Receiver<Told>, kept: impl Send + Sync + 'static) -> Self {
        Self { told, hears_all: true, _kept: Box::new(kept) }
    }

    /// For stores: others may change the record and tell nobody.
    #[must_use]
    pub fn hearing_some(mut self) -> Self {
        self.hears_all = false;
        self
    }

    /// Does everybody tell who changes the record? Otherwise look more often, also while it
    /// [is listening](Self::is_listening).
    pub fn hears_all(&self) -> bool {
        self.hears_all
    }

    /// Would a change be heard now?
    pub fn is_listening(&self) -> bool {
        self.told.borrow().listening
    }

    /// Waits for a reason to look again: something happened, or from now on (or no longer) it would be
    /// heard. Cancel-safe: no reason is lost.
    pub async fn reason(&mut self) {
        if self.told.changed().await.is_err() {
            // The store is gone, and tells nothing any more.
            std::future::pending::<()>().await;
        }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("told", &*self.told.borrow()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_happened_before_it_was_waited_for_is_heard() {
        let sender = watch::Sender::new(Told::default());
        let mut watch = Watch::new(sender.subscribe(), ());
        sender.send_modify(|told| told.listening = true);
        sender.send_modify(|told| told.changes += 1);
        watch.reason().await;
        assert!(watch.is_listening());
        let again = tokio::time::timeout(std::time::Duration::ZERO, watch.reason()).await;
        assert!(again.is_err());
    }
}
