//! The order after a reopening of the database: operations of lease holders first, then claims.
//!
//! A holder that waits to renew, settle or release knows what became of its work. A claim on the same
//! record that was decided before would learn less, or take the lease.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::oneshot;

use crate::OpenError;

/// The result of a reopening. Holders get a share of their turn with it.
pub(super) type Reopened = Result<Option<Arc<HolderTurn>>, Arc<OpenError>>;

/// Which operations go first once the store can write again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Renew, settle or release.
    Holder,
    /// Claim, or a check whether the store can write.
    Claim,
}

/// The turn of the holders that waited: each keeps a share until its operation is decided. When the
/// last share is dropped, the claims that waited go on.
#[derive(Debug)]
pub(super) struct HolderTurn {
    claims: Mutex<Vec<oneshot::Sender<Reopened>>>,
}

/// Operations that wait for the database to be reopened.
#[derive(Debug, Default)]
pub(super) struct ReopenQueue {
    holders: Vec<oneshot::Sender<Reopened>>,
    claims: Vec<oneshot::Sender<Reopened>>,
    turn: Weak<HolderTurn>,
}

// === impl HolderTurn ===

impl HolderTurn {
    fn end(&self) {
        let claims = {
            let mut claims = self.claims.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *claims)
        };
        for claim in claims {
            // It may have given up.
            let _ = claim.send(Ok(None));
        }
    }
}

impl Drop for HolderTurn {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl ReopenQueue ===

impl ReopenQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.claims.is_empty()
    }

    pub(super) fn join(&mut self, priority: Priority) -> oneshot::Receiver<Reopened> {
        let queue = match priority {
            Priority::Holder => &mut self.holders,
            Priority::Claim => &mut self.claims,
        };
        let (sender, receiver) = oneshot::channel();
        queue.retain(|waiter| !waiter.is_closed());
        queue.push(sender);
        receiver
    }

    /// The store can write: holders first.
    pub(super) fn admit(&mut self) {
        let claims = Mutex::new(std::mem::take(&mut self.claims));
        let turn = Arc::new(HolderTurn { claims });
        self.turn = Arc::downgrade(&turn);
        for holder in self.holders.drain(..) {
            let _ = holder.send(Ok(Some(Arc::clone(&turn))));
        }
    }

    /// Lets claims go on, whether or not every holder was decided: a holder's future that is neither
    /// polled nor dropped must not hold them up for long (I10).
    pub(super) fn end_turn(&mut self) {
        if let Some(turn) = std::mem::take(&mut self.turn).upgrade() {
            turn.end();
        }
    }

    /// The store could not be opened.
    pub(super) fn refuse(&mut self, error: &Arc<OpenError>) {
        for waiter in self.holders.drain(..).chain(self.claims.drain(..)) {
            let _ = waiter.send(Err(Arc::clone(error)));
        }
    }

    /// Leaves all without an answer.
    pub(super) fn clear(&mut self) {
        self.holders.clear();
        self.claims.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_admitted(waiter: &mut oneshot::Receiver<Reopened>) -> bool {
        waiter.try_recv().is_ok()
    }

    #[test]
    fn claims_go_on_when_the_last_holder_was_decided() {
        let mut queue = ReopenQueue::default();
        let mut claim = queue.join(Priority::Claim);
        let mut holders = [queue.join(Priority::Holder), queue.join(Priority::Holder)];
        queue.admit();
        let [first, second] = holders.each_mut().map(|holder| holder.try_recv().unwrap().unwrap());
        assert!(!is_admitted(&mut claim));
        drop(first);
        assert!(!is_admitted(&mut claim));
        drop(second);
        assert!(is_admitted(&mut claim));
        assert!(queue.is_empty());
    }

    #[test]
    fn claims_go_on_at_once_if_no_holder_waits() {
        let mut queue = ReopenQueue::default();
        let mut claim = queue.join(Priority::Claim);
        drop(queue.join(Priority::Holder));
        queue.admit();
        assert!(is_admitted(&mut claim));
    }

    #[test]
    fn a_holder_that_is_never_polled_delays_claims_for_a_bounded_time() {
        let mut queue = ReopenQueue::default();
        let mut claim = queue.join(Priority::Claim);
        let holder = queue.join(Priority::Holder);
        queue.admit();
        assert!(!is_admitted(&mut claim));
        queue.end_turn();
        assert!(is_admitted(&mut claim));
        drop(holder);
    }
}
