use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};

use crate::{Health, Released, Renewed, Settled, StoreError, Swept, Watch};

/// What a verb of a store returns. Boxed, so that a store can be chosen at run time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps records, and decides who may execute.
///
/// # Contract
///
/// The rules are those of `semel_core`: [`claim`](Store::claim) agrees with
/// [`decide`](semel_core::decide), and [`renew`](Store::renew), [`settle`](Store::settle) and
/// [`release`](Store::release) agree with the functions of the same names. A store may reach the
/// decision by other means (a script, a statement), never another decision. On top of that:
///
/// - **Atomic.** Reading the record, deciding and writing are one step. Two claims on one id are
///   decided one after the other, also from two nodes. No verb has a default here, because a
///   default would have to be made of two steps.
/// - **Durable.** A verb that returned `Ok` stays true after a crash, to the degree the store is
///   configured for. In particular, nothing is readable before it is durable: a replay must not
///   show an outcome that a crash could still undo (I6).
/// - **One clock.** Leases and expiry are judged by the store's own clock, never by a caller's.
/// - **A lost race is an answer, not an error.** Errors are for a store that could not do its
///   work; see [`StoreError`] for what each means to the caller.
/// - **Repeatable.** After [`StoreError::TimedOut`] the caller may repeat the same verb with the
///   same attempt or lease: the store recognises what it has already done.
/// - **Cancel-safe.** Dropping a future leaves the record either as it was or as the finished verb
///   would have left it.
/// - **Bounded.** Waiting is limited by the store or by [`Guarded`](crate::Guarded).
///
/// `store_conformance!` checks all this; a store without it is not a store.
pub trait Store: Send + Sync + 'static {
    /// Asks for the right to execute.
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim>;

    /// The answer to a claim on a record that this process surely knows to be settled, at once and
    /// without asking anyone. `None` says nothing: claim it.
    ///
    /// This one has a default, since it only looks; [`Cached`](crate::Cached) has more to say.
    fn recall(&self, _attempt: &Attempt) -> Option<Claim> {
        None
    }

    /// Hears of changes of a record that other nodes make, if the store can. Needs a runtime.
    ///
    /// This one has a default too: those who wait can always look again.
    fn watch(&self, _id: RecordId) -> Option<Watch> {
        None
    }

    /// Which of the store's parts has a record, if it is made of servers that fail each by itself: then
    /// [`Guarded`](crate::Guarded) counts the failures of each apart. Zero is the store as a whole.
    ///
    /// It must be known without asking, and may change at any moment.
    fn part(&self, _id: RecordId) -> usize {
        0
    }

    /// Extends a lease by `duration` from now, on the store's clock.
    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed>;

    /// Records the outcome under the lease's fence.
    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled>;

    /// Hands the lease back under its fence.
    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released>;

    /// Looks at a record without touching it; an expired one is not there.
    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>>;

    /// Deletes expired records, at most `limit` of them, without holding up claims.
    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept>;

    /// Is the store able to serve right now?
    fn health(&self) -> StoreFuture<'_, Health>;
}

impl<S: Store + ?Sized> Store for Arc<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        (**self).claim(attempt, policy)
    }

    fn recall(&self, attempt: &Attempt) -> Option<Claim> {
        (**self).recall(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        (**self).watch(id)
    }

    fn part(&self, id: RecordId) -> usize {
        (**self).part(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        (**self).renew(lease, duration)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        (**self).settle(lease, settlement)
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        (**self).release(lease, how)
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        (**self).inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        (**self).sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        (**self).health()
    }
}
