use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};

use crate::{Health, Released, Renewed, Settled, StoreError, Swept, Watch};

/// The future of a verb. Boxed, so that a store can be chosen at run time.
pub type StoreFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Keeps records, and grants the right to execute.
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
    /// Requests the right to execute.
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim>;

    /// The answer to a claim, if this process has a copy of the settled record that certainly has not expired.
    /// No I/O. `None` is no answer: call [`claim`](Self::claim).
    ///
    /// This method has a default, since it only reads; [`Cached`](crate::Cached) overrides it.
    fn cached_claim(&self, _attempt: &Attempt) -> Option<Claim> {
        None
    }

    /// Subscribes to the changes that other nodes make to a record, if the store can publish them. Needs a
    /// runtime.
    ///
    /// This method has a default too, since a waiter can always poll.
    fn watch(&self, _id: RecordId) -> Option<Watch> {
        None
    }

    /// The shard that has a record, if the store is made of servers that fail independently: then
    /// [`Guarded`](crate::Guarded) has a circuit breaker for each. Zero is the store as a whole.
    ///
    /// It is known without I/O, and may change at any moment.
    fn shard(&self, _id: RecordId) -> usize {
        0
    }

    /// Extends a lease by `duration` from now, on the store's clock.
    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed>;

    /// Records the outcome under the lease's fence.
    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled>;

    /// Hands the lease back under its fence.
    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released>;

    /// Reads a record without a change; an expired one counts as absent.
    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>>;

    /// Deletes expired records, at most `limit` of them, without delaying claims.
    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept>;

    /// Whether the store can serve now, and what time it is there.
    fn health(&self) -> StoreFuture<'_, Health>;
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Arc<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        (**self).claim(attempt, policy)
    }

    fn cached_claim(&self, attempt: &Attempt) -> Option<Claim> {
        (**self).cached_claim(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        (**self).watch(id)
    }

    fn shard(&self, id: RecordId) -> usize {
        (**self).shard(id)
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
