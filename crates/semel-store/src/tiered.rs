use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, Timestamp};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::guarded::Gate;
use crate::{
    Clock, Guard, Health, Released, Renewed, Settled, SettledCopy, Store, StoreError, StoreFuture,
    Swept, Watch,
};

/// A cache of settled records beside the store that has the records. It may lose copies at any
/// moment, and must never change them.
pub trait ReplayCache: Send + Sync + 'static {
    /// The copy of a record, if there is one.
    fn get(&self, id: RecordId) -> StoreFuture<'_, Option<SettledCopy>>;

    /// Keeps a copy, and notifies the watches of the record.
    fn put(&self, id: RecordId, copy: SettledCopy) -> StoreFuture<'_, ()>;

    /// Notifies the watches of the record that it may have changed.
    fn notify(&self, id: RecordId) -> StoreFuture<'_, ()>;

    /// The shard of the cache that has the copy of a record, as of [`Store::shard`].
    fn shard(&self, _id: RecordId) -> usize {
        0
    }

    /// Subscribes to [`put`](Self::put) and [`notify`](Self::notify) of other nodes, if the cache
    /// can publish them.
    fn watch(&self, _id: RecordId) -> Option<Watch> {
        None
    }
}

/// A primary store behind a faster cache that answers replays.
///
/// The primary decides everything, and makes it durable. Only settled records are copied to the cache,
/// which is read first: a settled record never changes until it expires (I2). So losing, emptying or
/// restarting the cache costs speed and nothing else: on a miss, and while the cache is unavailable,
/// claims go to the primary.
///
/// # Clock
///
/// As for [`Cached`](crate::Cached): `clock` must show the primary's time, and a copy is not trusted within
/// a margin before its record expires. If that clock is set back, copies whose records had expired by then are not trusted
/// again: the primary may have granted another execution. Each node has only its own readings: one
/// that is started afterwards, or had no requests meanwhile, trusts those copies.
///
/// # Staleness
///
/// A copy does not follow an operator who deletes or resolves its record in the primary: it is replayed until it expires.
#[derive(Debug)]
pub struct Tiered<C, S> {
    cache: Arc<C>,
    primary: S,
    clock: Arc<dyn Clock>,
    /// The latest time that was read, in milliseconds.
    latest: AtomicU64,
    gate: Arc<Gate>,
    log: Arc<LogLimiter>,
    /// Copies in progress: beyond this many, records are not copied (I10).
    copying: Arc<Semaphore>,
}

/// The two kinds of cache calls. Failures of one do not imply failures of the other: a full cache refuses
/// copies, and still has the earlier ones.
#[derive(Clone, Copy, Debug)]
enum Access {
    Read,
    Write,
}

/// Logs failures of the cache as warnings, but at most one per kind of access and minute.
#[derive(Debug, Default)]
struct LogLimiter {
    last: Mutex<[Option<Instant>; 2]>,
}

/// A slow cache is of no use.
const CACHE_GUARD: Guard = Guard {
    deadline: Duration::from_millis(100),
    failures_to_open: 3,
    open_for: Duration::from_secs(1),
    calls_max: 10_000,
};
const COPYING_MAX: usize = 4_096;
/// A record with a larger reply is not copied: it would delay many small ones.
const COPY_BYTES_MAX: usize = 64 << 10;
/// How long before its record's expiry a copy is no longer used.
const MARGIN: Duration = Duration::from_secs(1);
/// The reading of a clock that has not been set yet.
const END_OF_TIME: Timestamp = Timestamp::from_millis(u64::MAX);
/// The interval of warnings about one kind of access.
const LOG_EVERY: Duration = Duration::from_mins(1);

// === impl Tiered ===

impl<C: ReplayCache, S: Store> Tiered<C, S> {
    /// Puts `cache` before `primary`, whose time `clock` shows.
    pub fn new(cache: C, primary: S, clock: Arc<dyn Clock>) -> Self {
        Self {
            cache: Arc::new(cache),
            primary,
            clock,
            latest: AtomicU64::new(0),
            gate: Arc::new(Gate::new(CACHE_GUARD)),
            log: Arc::default(),
            copying: Arc::new(Semaphore::new(COPYING_MAX)),
        }
    }

    /// The answer of a copy in the cache, if there is one that counts.
    async fn cached_answer(&self, attempt: &Attempt) -> Option<Claim> {
        let id = attempt.id();
        let breaker = Access::Read.breaker(self.cache.shard(id));
        let copy = match self.gate.call("get", breaker, || self.cache.get(id)).await {
            Ok(copy) => copy?,
            Err(error) => {
                self.log.failure(Access::Read, &error);
                return None;
            }
        };
        self.is_trusted(&copy).then(|| copy.answer(attempt))
    }

    fn is_trusted(&self, copy: &SettledCopy) -> bool {
        let now = self.clock.now();
        // A clock that is not set yet shows the end of time, which must not become the latest reading.
        let latest = if now == END_OF_TIME {
            now
        } else {
            let before = self.latest.fetch_max(now.as_millis(), Ordering::Relaxed);
            now.max(Timestamp::from_millis(before))
        };
        latest.plus(MARGIN) < copy.expires
    }

    /// Writes to the cache in the background, unless too many writes are in progress or its breaker for reads
    /// is open.
    fn write_in_background<F>(&self, verb: &'static str, id: RecordId, write: F)
    where
        F: for<'c> FnOnce(&'c C) -> StoreFuture<'c, ()> + Send + 'static,
    {
        let shard = self.cache.shard(id);
        if !self.gate.is_closed(Access::Read.breaker(shard)) {
            return;
        }
        let Ok(permit) = self.copying.clone().try_acquire_owned() else {
            return;
        };
        let (cache, gate, log) = (self.cache.clone(), self.gate.clone(), self.log.clone());
        tokio::spawn(async move {
            let _permit = permit;
            let breaker = Access::Write.breaker(shard);
            if let Err(error) = gate.call(verb, breaker, || write(&cache)).await {
                log.failure(Access::Write, &error);
            }
        });
    }

    fn copy(&self, id: RecordId, copy: SettledCopy) {
        let bytes = copy.settlement.reply().map_or(0, |reply| reply.bytes().len());
        if bytes > COPY_BYTES_MAX || !self.is_trusted(&copy) {
            return;
        }
        self.write_in_background("put", id, move |cache| cache.put(id, copy));
    }
}

#[deny(clippy::missing_trait_methods)]
impl<C: ReplayCache, S: Store> Store for Tiered<C, S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            if let Some(claim) = self.cached_answer(attempt).await {
                return Ok(claim);
            }
            let claim = self.primary.claim(attempt, policy).await?;
            if let Claim::Replay { settlement, expires } = &claim {
                let (fingerprint, expires) = (attempt.fingerprint(), *expires);
                let settlement = settlement.clone();
                self.copy(attempt.id(), SettledCopy { fingerprint, settlement, expires });
            }
            Ok(claim)
        })
    }

    fn cached_claim(&self, attempt: &Attempt) -> Option<Claim> {
        self.primary.cached_claim(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        // A node that uses the primary alone does not notify the watches of the cache.
        let watch = self.cache.watch(id).map(Watch::partial);
        watch.or_else(|| self.primary.watch(id))
    }

    fn shard(&self, id: RecordId) -> usize {
        self.primary.shard(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.primary.renew(lease, duration)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let settled = self.primary.settle(lease, settlement.clone()).await?;
            if settled == Settled::Recorded {
                let (fingerprint, expires) = (lease.fingerprint(), lease.expires());
                self.copy(lease.id(), SettledCopy { fingerprint, settlement, expires });
            }
            Ok(settled)
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let released = self.primary.release(lease, how).await?;
            let id = lease.id();
            self.write_in_background("notify", id, move |cache| cache.notify(id));
            Ok(released)
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.primary.inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.primary.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.primary.health()
    }
}

// === impl Access ===

impl Access {
    /// Each kind of access to each shard has a breaker of its own.
    const fn breaker(self, shard: usize) -> usize {
        shard.saturating_mul(2).saturating_add(self as usize)
    }
}

// === impl LogLimiter ===

impl LogLimiter {
    fn failure(&self, access: Access, error: &StoreError) {
        let what = match access {
            Access::Read => "replay cache unavailable; reading from the primary store",
            Access::Write => {
                "replay cache takes no copies; replays will read from the primary store"
            }
        };
        if self.is_due(access) {
            tracing::warn!(%error, "{what}");
        } else {
            tracing::trace!(%error, "{what}");
        }
    }

    fn is_due(&self, access: Access) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut last[access as usize];
        let is_due = last.is_none_or(|last| last.elapsed() >= LOG_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
