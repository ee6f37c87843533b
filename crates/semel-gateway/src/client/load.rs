//! The requests of one connection that are in work, and how many of them were reset.
//!
//! A client may open a stream, begin an execution and reset the stream, or close the connection: the execution
//! continues (I9), and holds an upstream connection. So requests are counted until their work ends. Requests that
//! outlive their connection count for its address: see [`Leftovers`](super::leftovers::Leftovers).

use std::error::Error;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use super::leftovers::LeftBehind;

/// The counts of one connection.
#[derive(Debug)]
pub(crate) struct Load {
    limits: LoadLimits,
    /// Requests in work; with [`ENDED`] once the connection has ended.
    in_work: AtomicU32,
    /// How many more requests were reset in work than answered.
    resets: AtomicU32,
    /// The count of its address, for a connection that began while that was at its limit.
    held_to: Option<Arc<LeftBehind>>,
    /// The count to which its requests in work belong once it has ended.
    left_behind: OnceLock<Arc<LeftBehind>>,
}

/// The limits of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoadLimits {
    /// Requests in work at once, including those whose stream was reset.
    pub(crate) in_work: u32,
    /// Requests in work that may be reset; each one that is answered offsets one.
    pub(crate) resets: u32,
    /// Requests that the ended connections of one address may have in work before its new connections are refused.
    pub(crate) left_behind: u32,
}

/// The limit at which a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    Connection,
    /// So many requests are in work that ended connections of the address left behind.
    Address(u32),
}

/// Set in `in_work`, beside the number, when the connection has ended.
const ENDED: u32 = 1 << 31;

/// Why a connection is closed.
#[derive(Debug, thiserror::Error)]
#[error("too many requests were reset")]
pub(crate) struct TooManyResets;

/// A request in work. It is held with the request, then with the upstream's reply until that has been read, and until
/// the client is answered if it is still connected. What follows is not counted here: an execution without a client is
/// settled after the reply has been read, and `max_executions` counts it until then.
#[derive(Debug)]
pub(crate) struct InWork(Arc<Load>);

// === impl TooManyResets ===

impl TooManyResets {
    /// Whether it is the cause of `error`.
    pub(crate) fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(<dyn Error + Send + Sync>::is::<Self>)
    }
}

// === impl LoadLimits ===

impl LoadLimits {
    /// The limits of an HTTP/1.1 connection, which has one request at a time.
    pub(crate) const fn one_at_a_time(self) -> Self {
        Self { in_work: ENDED - 1, resets: u32::MAX, left_behind: self.left_behind }
    }
}

// === impl Load ===

impl Load {
    pub(crate) const fn new(limits: LoadLimits, held_to: Option<Arc<LeftBehind>>) -> Self {
        let (in_work, resets) = (AtomicU32::new(0), AtomicU32::new(0));
        Self { limits, in_work, resets, held_to, left_behind: OnceLock::new() }
    }

    pub(crate) const fn limits(&self) -> LoadLimits {
        self.limits
    }

    /// Counts one more request, unless there are too many.
    pub(crate) fn begin(self: &Arc<Self>) -> Result<Arc<InWork>, Full> {
        let left_behind = self.held_to.as_ref().map_or(0, |left| left.count());
        if left_behind >= self.limits.left_behind {
            return Err(Full::Address(left_behind));
        }
        self.begin_passing()
    }

    /// The same for a request that ends with its connection, so that nothing of it can be left behind.
    pub(crate) fn begin_passing(self: &Arc<Self>) -> Result<Arc<InWork>, Full> {
        let max = self.limits.in_work.min(ENDED - 1);
        let one_more = |in_work| (in_work < max).then_some(in_work + 1);
        self.in_work
            .try_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .map_err(|_| Full::Connection)?;
        Ok(Arc::new(InWork(self.clone())))
    }

    /// How many requests are in work.
    pub(crate) fn in_work(&self) -> u32 {
        self.in_work.load(Ordering::Relaxed) & !ENDED
    }

    /// The connection has ended: what it still has in work counts here from now on. Called once.
    pub(crate) fn leave(&self, left_behind: &Arc<LeftBehind>) {
        if self.left_behind.set(left_behind.clone()).is_ok() {
            // A request that ends meanwhile finds the mark, and is taken off again.
            let in_work = self.in_work.fetch_or(ENDED, Ordering::AcqRel);
            left_behind.add(in_work);
        }
    }

    /// A request was answered.
    pub(crate) fn answered(&self) {
        // Most often there is none.
        let one_less = |resets: u32| resets.checked_sub(1);
        let _ = self.resets.try_update(Ordering::Relaxed, Ordering::Relaxed, one_less);
    }

    /// The client reset a request in work. Returns whether it was one too many.
    pub(crate) fn was_reset(&self) -> bool {
        self.resets.fetch_add(1, Ordering::Relaxed);
        self.is_too_much()
    }

    /// Whether the client has reset more requests than allowed.
    pub(crate) fn is_too_much(&self) -> bool {
        self.resets.load(Ordering::Relaxed) > self.limits.resets
    }

    fn end_one(&self) {
        let before = self.in_work.fetch_sub(1, Ordering::AcqRel);
        if before & ENDED != 0
            && let Some(left_behind) = self.left_behind.get()
        {
            left_behind.remove_one();
        }
    }
}

// === impl InWork ===

impl InWork {
    /// The connection that it belongs to.
    pub(crate) const fn load(&self) -> &Arc<Load> {
        &self.0
    }
}

impl Drop for InWork {
    fn drop(&mut self) {
        self.0.end_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LoadLimits = LoadLimits { in_work: 2, resets: 3, left_behind: 2 };

    fn load() -> Arc<Load> {
        Arc::new(Load::new(LIMITS, None))
    }

    #[test]
    fn a_request_counts_until_its_work_ends() {
        let load = load();
        let (one, two) =
            (load.begin().expect("below the limit"), load.begin().expect("below the limit"));
        assert_eq!(load.begin().err(), Some(Full::Connection));
        // It is done when the last reference is dropped.
        let detached = one.clone();
        drop(one);
        assert_eq!(load.begin().err(), Some(Full::Connection));
        drop(detached);
        let three = load.begin().expect("below the limit");
        assert!(load.begin().is_err());
        drop((two, three));
        assert!(load.begin().is_ok());
    }

    #[test]
    fn work_of_an_ended_connection_counts_for_its_address_until_it_ends() {
        let (load, left) = (load(), Arc::new(LeftBehind::default()));
        let (one, two) =
            (load.begin().expect("below the limit"), load.begin().expect("below the limit"));
        drop(one);
        load.leave(&left);
        assert_eq!((left.count(), load.in_work()), (1, 1));
        // Only once.
        load.leave(&left);
        assert_eq!(left.count(), 1);
        drop(two);
        assert_eq!((left.count(), load.in_work()), (0, 0));
    }

    #[test]
    fn a_connection_is_refused_while_its_address_is_at_the_limit() {
        let left = Arc::new(LeftBehind::default());
        let later = Arc::new(Load::new(LIMITS, Some(left.clone())));
        left.add(2);
        assert_eq!(later.begin().err(), Some(Full::Address(2)));
        assert!(later.begin_passing().is_ok());
        left.remove_one();
        assert!(later.begin().is_ok());
    }

    #[test]
    fn answers_offset_resets() {
        let load = load();
        load.answered();
        for _ in 0..100 {
            assert!(!load.was_reset());
            load.answered();
        }
        for _ in 0..3 {
            assert!(!load.was_reset());
        }
        assert!(!load.is_too_much());
        assert!(load.was_reset() && load.is_too_much());
    }
}
