use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use quick_cache::sync::Cache;
use quick_cache::{OptionsBuilder, Weighter};
use semel_core::planted::{Bug, planted};
use semel_core::{
    Attempt, Claim, Fingerprint, Lease, Policy, Record, RecordId, Release, Reply, Settlement,
    Timestamp,
};

use crate::{
    Clock, Health, IdHash, Released, Renewed, Settled, SettledCopy, Store, StoreFuture, Swept,
    Watch,
};

/// Answers replays from this process's memory: a settled record never changes until it expires
/// (I2), so a copy is as good as the record.
///
/// Only settled records are cached. A claim on a record that can still change (leased, released, held)
/// goes to the store every time, and so does every verb but `claim`. Around a
/// [`Guarded`](crate::Guarded) store the cache replays during an outage too.
///
/// # Clock
///
/// Expiry is the store's to judge, by the store's clock (trap 18). `clock` must therefore be the
/// store's own, as for a store in this process, or one that lags behind a server's by less than
/// [`CacheLimits::margin`]. Within the margin before its expiry a claim goes to the store
/// again, so a replay is never given past expiry. A clock that runs ahead only costs hits. When it is
/// [set back](Clock::set_backs) all copies are dropped.
///
/// # Staleness
///
/// A copy does not follow an operator who deletes or resolves its record in the store: it may be
/// replayed until the record would have expired or the copy is evicted.
/// [`forget`](Cached::forget) drops the copy in this process.
///
/// A copy taken when a lease is settled has the expiry of that lease: the code that renews must
/// store the answer in it ([`Lease::renewed`]). The expiry of a copy is never later than that of the record.
#[derive(Debug)]
pub struct Cached<S> {
    store: S,
    clock: Arc<dyn Clock>,
    limits: CacheLimits,
    copies: Cache<RecordId, SettledCopy, ByBytes, IdHash>,
    /// The value of [`Clock::set_backs`] when the copies were last dropped for it.
    set_backs: AtomicU64,
}

/// The size of the cache of a [`Cached`] store, and how close to its expiry a copy is trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// All copies together weigh at most this much.
    pub bytes: u64,
    /// A record with a larger reply is not cached: it would evict many small ones.
    pub entry_bytes_max: usize,
    /// How long before its record's expiry a copy is no longer used: longer than `clock` can lag behind
    /// the store's.
    pub margin: Duration,
}

/// Weighs a copy by the memory it takes.
#[derive(Clone, Debug)]
struct ByBytes;

// === impl CacheLimits ===

impl Default for CacheLimits {
    fn default() -> Self {
        Self { bytes: 64 << 20, entry_bytes_max: 64 << 10, margin: Duration::from_secs(1) }
    }
}

impl CacheLimits {
    /// The number of copies to allocate for at first; the cache grows from there within its bytes.
    fn copies_estimated(&self) -> usize {
        const TYPICAL_BYTES: u64 = 1 << 10;
        usize::try_from(self.bytes / TYPICAL_BYTES).unwrap_or(usize::MAX)
    }

    /// The shards of the cache: enough that threads rarely contend, but each still large enough to hold
    /// the largest copy many times over.
    fn shards(&self) -> usize {
        const SHARDS_MAX: u64 = 32;
        const LARGEST_PER_SHARD: u64 = 16;
        let largest = (self.entry_bytes_max as u64).saturating_add(ByBytes::FIXED);
        let shards = self.bytes / largest.saturating_mul(LARGEST_PER_SHARD);
        usize::try_from(shards.clamp(1, SHARDS_MAX)).unwrap_or(1)
    }
}

// === impl Cached ===

impl<S: Store> Cached<S> {
    /// Puts a cache in front of `store`; `clock` shows the time of the store.
    pub fn new(store: S, clock: Arc<dyn Clock>, limits: CacheLimits) -> Self {
        let options = OptionsBuilder::new()
            .estimated_items_capacity(limits.copies_estimated())
            .weight_capacity(limits.bytes)
            .shards(limits.shards())
            .build()
            .expect("both capacities are given");
        Self {
            store,
            set_backs: AtomicU64::new(clock.set_backs()),
            clock,
            limits,
            copies: Cache::with_options(
                options,
                ByBytes,
                IdHash::default(),
                quick_cache::sync::DefaultLifecycle::default(),
            ),
        }
    }

    /// Drops the copy of a record that was deleted or resolved in the store. Other processes keep
    /// theirs.
    pub fn forget(&self, id: RecordId) {
        self.copies.remove(&id);
    }

    /// How much all copies weigh now, in bytes.
    pub fn bytes(&self) -> u64 {
        self.copies.weight()
    }

    fn remember(
        &self,
        id: RecordId,
        fingerprint: Fingerprint,
        settled: &Settlement,
        expires: Timestamp,
        set_backs: u64,
    ) {
        let bytes = settled.reply().map_or(0, |reply| reply.bytes().len());
        if bytes > self.limits.entry_bytes_max || !self.is_trusted(expires, set_backs) {
            return;
        }
        let copy = SettledCopy { fingerprint, settlement: compact(settled), expires };
        self.copies.insert(id, copy);
    }

    /// Whether the record of a copy has certainly not expired. `set_backs` must be read before the copy.
    fn is_trusted(&self, expires: Timestamp, set_backs: u64) -> bool {
        // In this order: a reader of an earlier time also reads that the clock was set back.
        self.clock.now().plus(self.limits.margin) < expires && self.clock.set_backs() == set_backs
    }

    /// [`Clock::set_backs`], after dropping the copies from before the last set-back: while the clock was
    /// ahead their records may have expired, and another node may have executed again (I4).
    fn set_backs(&self) -> u64 {
        let set_backs = self.clock.set_backs();
        if self.set_backs.load(Ordering::Acquire) != set_backs {
            self.copies.clear();
            self.set_backs.store(set_backs, Ordering::Release);
        }
        set_backs
    }
}

/// The same settlement in memory of its own: a reply may be a slice of a much larger buffer, which
/// a copy would keep alive unweighed.
fn compact(settlement: &Settlement) -> Settlement {
    let own = |reply: &Reply| {
        let own = Reply::new(Bytes::copy_from_slice(reply.bytes()));
        match reply.result() {
            Some(result) => own.with_result(result.clone()),
            None => own,
        }
    };
    match settlement {
        Settlement::Completed(reply) => Settlement::Completed(own(reply)),
        Settlement::Failed(reply) => Settlement::Failed(own(reply)),
        Settlement::Abandoned => Settlement::Abandoned,
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store> Store for Cached<S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            if let Some(claim) = self.cached_claim(attempt) {
                return Ok(claim);
            }
            let set_backs = self.set_backs();
            let claim = self.store.claim(attempt, policy).await?;
            if let Claim::Replay { settlement, expires } = &claim {
                let (id, fingerprint) = (attempt.id(), attempt.fingerprint());
                self.remember(id, fingerprint, settlement, *expires, set_backs);
            }
            Ok(claim)
        })
    }

    /// The answer of a copy, if there is one that certainly has not expired.
    fn cached_claim(&self, attempt: &Attempt) -> Option<Claim> {
        let set_backs = self.set_backs();
        let copy = self.copies.get(&attempt.id())?;
        if !self.is_trusted(copy.expires, set_backs) {
            let is_old = |copy: &SettledCopy| !self.is_trusted(copy.expires, set_backs);
            self.copies.remove_if(&attempt.id(), is_old);
            return None;
        }
        Some(copy.answer(attempt))
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.store.watch(id)
    }

    fn shard(&self, id: RecordId) -> usize {
        self.store.shard(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.store.renew(lease, duration)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let set_backs = self.set_backs();
            let settled = self.store.settle(lease, settlement.clone()).await?;
            if settled == Settled::Recorded || planted(Bug::CacheAnswersAfterTakeover) {
                let (id, fingerprint) = (lease.id(), lease.fingerprint());
                self.remember(id, fingerprint, &settlement, lease.expires(), set_backs);
            }
            Ok(settled)
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.store.release(lease, how)
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.store.inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.store.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.store.health()
    }
}

// === impl ByBytes ===

impl ByBytes {
    /// What a copy takes beside its reply: itself, its id, its place in the cache's tables, and the
    /// head of the reply's allocation.
    const FIXED: u64 = (size_of::<RecordId>() + size_of::<SettledCopy>() + 64) as u64;
}

impl Weighter<RecordId, SettledCopy> for ByBytes {
    fn weight(&self, _: &RecordId, copy: &SettledCopy) -> u64 {
        let reply = copy.settlement.reply();
        let bytes = reply.map_or(0, |reply| reply.bytes().len());
        let result = reply.and_then(Reply::result).map_or(0, |result| result.as_str().len());
        Self::FIXED + (bytes + result) as u64
    }
}

#[cfg(test)]
mod tests;
