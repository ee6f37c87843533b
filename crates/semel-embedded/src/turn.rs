//! Who goes on first when the store can write again: holders of leases, then claims.
//!
//! A holder that waits to renew, settle or release knows what became of its work. A claim on the same
//! record that was decided before would learn less, or take the lease.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::oneshot;

use crate::OpenError;

/// How the attempt to open the engine anew went. Holders get a share of their turn with it.
pub(crate) type Told = Result<Option<Arc<Turn>>, Arc<OpenError>>;

/// What an operation wants to do once the store can write again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rank {
    /// Renew, settle or release.
    Holder,
    /// Claim, or only see whether the store can write.
    Claim,
}

/// The turn of the holders that waited: each keeps a share until its operation is decided. When the
/// last share is dropped, the claims that waited go on.
#[derive(Debug)]
pub(crate) struct Turn {
    claims: Mutex<Vec<oneshot::Sender<Told>>>,
}

/// Those that wait for the engine to be opened anew.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    holders: Vec<oneshot::Sender<Told>>,
    claims: Vec<oneshot::Sender<Told>>,
    turn: Weak<Turn>,
}

// === impl Turn ===

impl Turn {
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

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}

// === impl Waiting ===

impl Waiting {
    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty() && self.claims.is_empty()
    }

    pub(crate) fn join(&mut self, rank: Rank) -> oneshot::Receiver<Told> {
        let queue = match rank {
            Rank::Holder => &mut self.holders,
            Rank::Claim => &mut self.claims,
        };
        let (tell, told) = oneshot::channel();
        queue.retain(|waiter| !waiter.is_closed());
        queue.push(tell);
        told
    }

    /// The store can write: holders first.
    pub(crate) fn admit(&mut self) {
        let claims = Mutex::new(std::mem::take(&mut self.claims));
        let turn = Arc::new(Turn { claims });
        self.turn = Arc::downgrade(&turn);
        for holder in self.holders.drain(..) {
            let _ = holder.send(Ok(Some(Arc::clone(&turn))));
        }
    }

    /// Lets claims go on, whether or not every holder was decided: a holder's future that is neither
    /// polled nor dropped must not hold them up for long (I10).
    pub(crate) fn end_turn(&mut self) {
        if let Some(turn) = std::mem::take(&mut self.turn).upgrade() {
            turn.end();
        }
    }

    /// The store could not be opened.
    pub(crate) fn refuse(&mut self, error: &Arc<OpenError>) {
        for waiter in self.holders.drain(..).chain(self.claims.drain(..)) {
            let _ = waiter.send(Err(Arc::clone(error)));
        }
    }

    /// Leaves everyone without an answer.
    pub(crate) fn clear(&mut self) {
        self.holders.clear();
        self.claims.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_told(waiter: &mut oneshot::Receiver<Told>) -> bool {
        waiter.try_recv().is_ok()
    }

    #[test]
    fn claims_go_on_when_the_last_holder_was_decided() {
        let mut waiting = Waiting::default();
        let mut claim = waiting.join(Rank::Claim);
        let mut holders = [waiting.join(Rank::Holder), waiting.join(Rank::Holder)];
        waiting.admit();
        let [first, second] = holders.each_mut().map(|holder| holder.try_recv().unwrap().unwrap());
        assert!(!is_told(&mut claim));
        drop(first);
        assert!(!is_told(&mut claim));
        drop(second);
        assert!(is_told(&mut claim));
        assert!(waiting.is_empty());
    }

    #[test]
    fn claims_go_on_at_once_if_no_holder_waits() {
        let mut waiting = Waiting::default();
        let mut claim = waiting.join(Rank::Claim);
        drop(waiting.join(Rank::Holder));
        waiting.admit();
        assert!(is_told(&mut claim));
    }

    #[test]
    fn a_holder_that_is_never_polled_holds_up_nobody_for_long() {
        let mut waiting = Waiting::default();
        let mut claim = waiting.join(Rank::Claim);
        let holder = waiting.join(Rank::Holder);
        waiting.admit();
        assert!(!is_told(&mut claim));
        waiting.end_turn();
        assert!(is_told(&mut claim));
        drop(holder);
    }
}
