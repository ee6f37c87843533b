use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::rate::Used;
use super::{Quota, ScopeLimits, TooManyKeys};

const SHARDS: usize = 64;
/// How many scopes without executions each shard keeps: 65,536 in all. If there are more, some start with a full
/// bucket again. Scopes with executions are bounded by the limit for executions.
const IDLE_MAX: usize = 1_024;

/// Counts the use of each scope. Clones share their counts.
#[derive(Clone)]
pub struct Quotas(Arc<[Mutex<Shard>; SHARDS]>);

#[derive(Debug)]
struct Shard {
    shares: HashMap<u64, Share>,
    /// The number of scopes at which idle ones are removed.
    full_at: usize,
}

/// The use of one scope.
#[derive(Debug, Default)]
struct Share {
    executions: u32,
    new_keys: Used,
    records: Used,
    bytes: Used,
}

/// A permit for one execution of a scope, returned when it is dropped.
#[derive(Debug)]
#[must_use = "a dropped permit is returned"]
pub struct QuotaPermit {
    quotas: Quotas,
    quota: Quota,
    key: NewKey,
}

/// Whether the execution may be the first one of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NewKey {
    /// Keys are not counted, or this one is counted for good.
    Free,
    /// Counted, and returned if the key turns out to be known.
    Reserved,
    /// No permit for a new key is left.
    Refused(TooManyKeys),
}

// === impl Quotas ===

impl Quotas {
    /// Takes a permit for one execution, with one for a new key if any is left.
    pub fn take(&self, quota: Quota) -> Result<QuotaPermit, TooManyKeys> {
        let now = Instant::now();
        let mut shard = self.shard(quota);
        let max = quota.limits.executions_max;
        let taken = match shard.shares.entry(quota.counted) {
            Entry::Occupied(known) if known.get().executions >= max => {
                return Err(TooManyKeys::Executions { max });
            }
            // A scope that may execute nothing gets no entry, since no permit would ever remove it.
            Entry::Vacant(_) if max == 0 => return Err(TooManyKeys::Executions { max }),
            entry => entry.or_default(),
        };
        taken.executions += 1;
        let key = taken.reserve_key(quota.limits, now);
        if shard.shares.len() > shard.full_at {
            shard.forget(now);
        }
        drop(shard);
        Ok(QuotaPermit { quotas: self.clone(), quota, key })
    }

    /// How many scopes are counted.
    pub fn scopes(&self) -> usize {
        self.0.iter().map(|shard| locked(shard).shares.len()).sum()
    }

    fn shard(&self, quota: Quota) -> MutexGuard<'_, Shard> {
        locked(&self.0[quota.counted.to_le_bytes()[7] as usize % SHARDS])
    }
}

fn locked(shard: &Mutex<Shard>) -> MutexGuard<'_, Shard> {
    // Counters are changed in single steps, so a panic elsewhere leaves them consistent.
    shard.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Default for Quotas {
    fn default() -> Self {
        let shard = || Shard { shares: HashMap::new(), full_at: IDLE_MAX };
        Self(Arc::new(std::array::from_fn(|_| Mutex::new(shard()))))
    }
}

impl fmt::Debug for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Quotas").field("scopes", &self.scopes()).finish()
    }
}

// === impl Share ===

impl Share {
    /// Takes a permit for a new key and a record, if none of the scope's limits is used up.
    fn reserve_key(&mut self, limits: ScopeLimits, now: Instant) -> NewKey {
        let Some(refusal) = self.missing(limits, now) else {
            self.take_key(limits, now);
            let is_counted = limits.new_keys.is_some() || limits.records.is_some();
            return if is_counted { NewKey::Reserved } else { NewKey::Free };
        };
        NewKey::Refused(refusal)
    }

    fn take_key(&mut self, limits: ScopeLimits, now: Instant) {
        if let Some(rate) = limits.new_keys {
            self.new_keys.take(1, rate, now);
        }
        if let Some(rate) = limits.records {
            self.records.take(1, rate, now);
        }
    }

    /// The limit that refuses new keys for the longest time.
    fn missing(&self, limits: ScopeLimits, now: Instant) -> Option<TooManyKeys> {
        let until = |used: Used, amount, rate| used.until(amount, rate, now);
        let new_keys = limits.new_keys.map(|rate| {
            let again_in = until(self.new_keys, 1, rate);
            (again_in, TooManyKeys::NewKeys { rate, again_in })
        });
        let records = limits.records.map(|rate| {
            let again_in = until(self.records, 1, rate);
            (again_in, TooManyKeys::Records { rate, again_in })
        });
        // The size of the reply is not known yet: it is enough that there is no deficit.
        let bytes = limits.record_bytes.map(|rate| {
            let again_in = until(self.bytes, 0, rate);
            (again_in, TooManyKeys::RecordBytes { rate, again_in })
        });
        let refusals = [new_keys, records, bytes].into_iter().flatten();
        let longest = refusals.max_by_key(|(again_in, _)| *again_in);
        longest.filter(|(again_in, _)| !again_in.is_zero()).map(|(_, refusal)| refusal)
    }

    fn return_key(&mut self, limits: ScopeLimits, now: Instant) {
        if let Some(rate) = limits.new_keys {
            self.new_keys.give_back(1, rate, now);
        }
        if let Some(rate) = limits.records {
            self.records.give_back(1, rate, now);
        }
    }

    /// Whether all buckets are full.
    fn is_full(&self, now: Instant) -> bool {
        [self.new_keys, self.records, self.bytes].iter().all(|used| used.is_full(now))
    }

    fn is_unused(&self) -> bool {
        [self.new_keys, self.records, self.bytes].iter().all(|used| used.is_unused())
    }
}

// === impl Shard ===

impl Shard {
    /// Removes the scopes whose buckets are full, and if those are few, all scopes without executions. The next
    /// removal comes only when the number has doubled, so that its cost is amortised.
    fn forget(&mut self, now: Instant) {
        self.shares.retain(|_, share| share.executions > 0 || !share.is_full(now));
        if self.shares.len() > IDLE_MAX / 2 {
            self.shares.retain(|_, share| share.executions > 0);
        }
        self.full_at = IDLE_MAX.max(self.shares.len() * 2);
    }
}

// === impl QuotaPermit ===

impl QuotaPermit {
    /// Whether the execution may be the first one of its key.
    pub(crate) const fn may_begin_key(&self) -> Result<(), TooManyKeys> {
        match self.key {
            NewKey::Refused(refusal) => Err(refusal),
            NewKey::Free | NewKey::Reserved => Ok(()),
        }
    }

    /// Counts the key for good: it was new, or may have been. So it may be although there was no permit for it: the
    /// record was there when it was read, and had expired when it was claimed.
    pub(crate) fn spend_key(&mut self) {
        if matches!(self.key, NewKey::Refused(_)) {
            let (limits, now) = (self.quota.limits, Instant::now());
            self.change(|share| share.take_key(limits, now));
        }
        self.key = NewKey::Free;
    }

    /// Returns the permit of the key, which was known.
    pub(crate) fn return_key(&mut self) {
        if self.key == NewKey::Reserved {
            self.key = NewKey::Free;
            let (limits, now) = (self.quota.limits, Instant::now());
            self.change(|share| share.return_key(limits, now));
        }
    }

    /// Counts bytes that were recorded.
    pub(crate) fn spend_bytes(&self, bytes: u64) {
        if let Some(rate) = self.quota.limits.record_bytes {
            let now = Instant::now();
            self.change(|share| share.bytes.take(bytes, rate, now));
        }
    }

    fn change(&self, change: impl FnOnce(&mut Share)) {
        let mut shard = self.quotas.shard(self.quota);
        if let Some(share) = shard.shares.get_mut(&self.quota.counted) {
            change(share);
        }
    }
}

impl Drop for QuotaPermit {
    fn drop(&mut self) {
        let mut shard = self.quotas.shard(self.quota);
        let Entry::Occupied(mut entry) = shard.shares.entry(self.quota.counted) else { return };
        let taken = entry.get_mut();
        taken.executions -= 1;
        if self.key == NewKey::Reserved {
            taken.return_key(self.quota.limits, Instant::now());
        }
        if taken.executions == 0 && taken.is_unused() {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests;
