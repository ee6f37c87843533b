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

/// Keeps copies of settled records, nearer than the store that has the records. It may lose them at any
/// moment, and must never change them.
pub trait Near: Send + Sync + 'static {
    /// The copy of a record, if there is one.
    fn get(&self, id: RecordId) -> StoreFuture<'_, Option<SettledCopy>>;

    /// Keeps a copy, and tells those who watch the record.
    fn put(&self, id: RecordId, copy: SettledCopy) -> StoreFuture<'_, ()>;

    /// Tells those who watch the record that it is worth a look.
    fn tell(&self, id: RecordId) -> StoreFuture<'_, ()>;

    /// Which of its parts has the copy of a record, as of [`Store::part`].
    fn part(&self, _id: RecordId) -> usize {
        0
    }

    /// Hears of [`put`](Self::put) and [`tell`](Self::tell) on other nodes, if that can be heard.
    fn watch(&self, _id: RecordId) -> Option<Watch> {
        None
    }
}

/// Two stores in one: the truth, and a faster one before it that answers replays.
///
/// Everything is decided by the truth, and is durable there. Only what it says is settled is copied to
/// the near one, where it is looked for first: a settled record never changes until it expires (I2). So
/// losing, emptying or restarting the near one costs speed and nothing else: what is not found there is
/// asked of the truth, and so is everything while it is away.
///
/// # Whose clock
///
/// As for [`Cached`](crate::Cached): `clock` must show the truth's time, and a copy is not trusted within
/// a margin before its record expires. If that clock is set back, copies whose records had expired by then are not trusted
/// again: the truth may have executed anew. That is so for what this node has seen of the clock; one that is started
/// afterwards, or was not asked meanwhile, trusts them.
///
/// # Staleness
///
/// An operator who deletes or resolves a record in the truth is not seen here until the copy expires.
#[derive(Debug)]
pub struct Tiered<N, S> {
    near: Arc<N>,
    truth: S,
    clock: Arc<dyn Clock>,
    /// The latest time that was seen, in milliseconds.
    latest: AtomicU64,
    gate: Arc<Gate>,
    complaints: Arc<Complaints>,
    /// Copies under way: beyond so many, records go without (I10).
    copying: Arc<Semaphore>,
}

/// What is asked of the near one. Whether it can answer the one says little about the other: when it is
/// full it refuses copies, and still has those that it has.
#[derive(Clone, Copy, Debug)]
enum Use {
    Looking,
    Telling,
}

/// Says that the near one is away or refuses something, but not each time.
#[derive(Debug, Default)]
struct Complaints {
    last: Mutex<[Option<Instant>; 2]>,
}

/// The near one is fast, or it is of no use.
const NEAR_GUARD: Guard = Guard {
    deadline: Duration::from_millis(100),
    failures_to_open: 3,
    open_for: Duration::from_secs(1),
    calls_max: 10_000,
};
const COPYING_MAX: usize = 4_096;
/// A record with a larger reply is not copied: it would hold up many small ones.
const COPY_BYTES_MAX: usize = 64 << 10;
/// By how much a copy is given up before its record expires.
const MARGIN: Duration = Duration::from_secs(1);
/// What a clock shows that cannot say.
const END_OF_TIME: Timestamp = Timestamp::from_millis(u64::MAX);
/// How often it is said that the near one is away.
const COMPLAIN_EVERY: Duration = Duration::from_mins(1);

// === impl Tiered ===

impl<N: Near, S: Store> Tiered<N, S> {
    /// Puts `near` before `truth`, whose time `clock` tells.
    pub fn new(near: N, truth: S, clock: Arc<dyn Clock>) -> Self {
        Self {
            near: Arc::new(near),
            truth,
            clock,
            latest: AtomicU64::new(0),
            gate: Arc::new(Gate::new(NEAR_GUARD)),
            complaints: Arc::default(),
            copying: Arc::new(Semaphore::new(COPYING_MAX)),
        }
    }

    /// What the near one has to say, if anything that counts.
    async fn found_near(&self, attempt: &Attempt) -> Option<Claim> {
        let id = attempt.id();
        let part = Use::Looking.of(self.near.part(id));
        let copy = match self.gate.call("get", part, || self.near.get(id)).await {
            Ok(copy) => copy?,
            Err(error) => {
                self.complaints.about(Use::Looking, &error);
                return None;
            }
        };
        self.is_trusted(&copy).then(|| copy.answer(attempt))
    }

    fn is_trusted(&self, copy: &SettledCopy) -> bool {
        let now = self.clock.now();
        // One that has not heard the truth shows the end of time, which says nothing.
        let latest = if now == END_OF_TIME {
            now
        } else {
            let before = self.latest.fetch_max(now.as_millis(), Ordering::Relaxed);
            now.max(Timestamp::from_millis(before))
        };
        latest.plus(MARGIN) < copy.expires
    }

    /// Does something with the near one that nobody waits for, unless too much is under way, or it is not
    /// there to be looked at.
    fn apart<F>(&self, verb: &'static str, id: RecordId, ask: F)
    where
        F: for<'n> FnOnce(&'n N) -> StoreFuture<'n, ()> + Send + 'static,
    {
        let part = self.near.part(id);
        if !self.gate.is_closed(Use::Looking.of(part)) {
            return;
        }
        let Ok(place) = self.copying.clone().try_acquire_owned() else {
            return;
        };
        let (near, gate) = (self.near.clone(), self.gate.clone());
        let complaints = self.complaints.clone();
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = gate.call(verb, Use::Telling.of(part), || ask(&near)).await {
                complaints.about(Use::Telling, &error);
            }
        });
    }

    fn copy(&self, id: RecordId, copy: SettledCopy) {
        let bytes = copy.settlement.reply().map_or(0, |reply| reply.bytes().len());
        if bytes > COPY_BYTES_MAX || !self.is_trusted(&copy) {
            return;
        }
        self.apart("put", id, move |near| near.put(id, copy));
    }
}

impl<N: Near, S: Store> Store for Tiered<N, S> {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            if let Some(claim) = self.found_near(attempt).await {
                return Ok(claim);
            }
            let claim = self.truth.claim(attempt, policy).await?;
            if let Claim::Replay { settlement, expires } = &claim {
                let (fingerprint, expires) = (attempt.fingerprint(), *expires);
                let settlement = settlement.clone();
                self.copy(attempt.id(), SettledCopy { fingerprint, settlement, expires });
            }
            Ok(claim)
        })
    }

    fn recall(&self, attempt: &Attempt) -> Option<Claim> {
        self.truth.recall(attempt)
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        // A node that has the truth alone tells nobody here.
        let near = self.near.watch(id).map(Watch::hearing_some);
        near.or_else(|| self.truth.watch(id))
    }

    fn part(&self, id: RecordId) -> usize {
        self.truth.part(id)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.truth.renew(lease, duration)
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let settled = self.truth.settle(lease, settlement.clone()).await?;
            if settled == Settled::Recorded {
                let (fingerprint, expires) = (lease.fingerprint(), lease.expires());
                self.copy(lease.id(), SettledCopy { fingerprint, settlement, expires });
            }
            Ok(settled)
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let released = self.truth.release(lease, how).await?;
            let id = lease.id();
            self.apart("tell", id, move |near| near.tell(id));
            Ok(released)
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.truth.inspect(id)
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.truth.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.truth.health()
    }
}

// === impl Use ===

impl Use {
    /// Each use of each part has a breaker of its own.
    const fn of(self, part: usize) -> usize {
        part.saturating_mul(2).saturating_add(self as usize)
    }
}

// === impl Complaints ===

impl Complaints {
    fn about(&self, use_: Use, error: &StoreError) {
        let what = match use_ {
            Use::Looking => "no copies are found near: the truth is asked",
            Use::Telling => "no copies are kept near: the truth will be asked again",
        };
        if self.is_due(use_) {
            tracing::warn!(%error, "{what}");
        } else {
            tracing::trace!(%error, "{what}");
        }
    }

    fn is_due(&self, use_: Use) -> bool {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let last = &mut last[use_ as usize];
        let is_due = last.is_none_or(|last| last.elapsed() >= COMPLAIN_EVERY);
        if is_due {
            *last = Some(Instant::now());
        }
        is_due
    }
}

#[cfg(test)]
mod tests;
