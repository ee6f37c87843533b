//! What the cases share: a store under trial, attempts on it, and its time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Key, Lease, OnAbandoned, Owner, Policy, Record, RecordId, Release,
    Reply, Scope, Settlement, Timestamp,
};

use super::Fixture;
use crate::{Health, Released, Renewed, Settled, Store, Swept};

/// Every policy for abandoned records.
pub(super) const EVERY_POLICY: [OnAbandoned; 3] =
    [OnAbandoned::Reexecute, OnAbandoned::Fail, OnAbandoned::Hold];

/// A store under trial. Its verbs must not fail; a case is about their answers.
pub(super) struct Trial<F> {
    fixture: F,
}

// === impl Trial ===

impl<F: Fixture> Trial<F> {
    pub(super) async fn begin() -> Self {
        Self { fixture: F::make().await }
    }

    /// Closes the store and opens it again.
    pub(super) async fn reopen(self) -> Self {
        Self { fixture: self.fixture.reopen().await }
    }

    pub(super) fn store(&self) -> &F::Store {
        self.fixture.store()
    }

    pub(super) async fn claim(&self, attempt: &Attempt) -> Claim {
        self.claim_with(attempt, &patient()).await
    }

    pub(super) async fn claim_with(&self, attempt: &Attempt, policy: &Policy) -> Claim {
        self.store().claim(attempt, policy).await.expect("claim")
    }

    /// Claims, and must be granted a lease.
    pub(super) async fn lease(&self, attempt: &Attempt) -> Lease {
        granted(self.claim(attempt).await)
    }

    pub(super) async fn lease_with(&self, attempt: &Attempt, policy: &Policy) -> Lease {
        granted(self.claim_with(attempt, policy).await)
    }

    pub(super) async fn renew(&self, lease: &Lease, duration: Duration) -> Renewed {
        self.store().renew(lease, duration).await.expect("renew")
    }

    pub(super) async fn settle(&self, lease: &Lease, settlement: &Settlement) -> Settled {
        let settlement = settlement.clone();
        self.store().settle(lease, settlement).await.expect("settle")
    }

    pub(super) async fn release(&self, lease: &Lease, how: Release) -> Released {
        self.store().release(lease, how).await.expect("release")
    }

    /// Settles, and must be recorded.
    pub(super) async fn record_outcome(&self, lease: &Lease, settlement: &Settlement) {
        assert_eq!(self.settle(lease, settlement).await, Settled::Recorded);
    }

    /// Releases, and must succeed.
    pub(super) async fn hand_back(&self, lease: &Lease, how: Release) {
        assert_eq!(self.release(lease, how).await, Released::Done);
    }

    pub(super) async fn inspect(&self, id: RecordId) -> Option<Record> {
        self.store().inspect(id).await.expect("inspect")
    }

    /// Inspects a record that must exist.
    pub(super) async fn record(&self, id: RecordId) -> Record {
        self.inspect(id).await.expect("a record that has not expired")
    }

    pub(super) async fn sweep(&self, limit: usize) -> Swept {
        self.store().sweep(limit).await.expect("sweep")
    }

    /// Sweeps the whole store; returns how many records were deleted.
    pub(super) async fn sweep_all(&self, limit: usize) -> usize {
        let mut deleted = 0;
        for _ in 0..1_000 {
            let swept = self.sweep(limit).await;
            assert!(swept.deleted <= limit, "{swept:?} went beyond {limit}");
            deleted += swept.deleted;
            if !swept.more {
                return deleted;
            }
        }
        panic!("a thousand sweeps of {limit} never came to the end");
    }

    pub(super) async fn health(&self) -> Health {
        self.store().health().await.expect("health")
    }

    /// The store's clock.
    pub(super) async fn now(&self) -> Timestamp {
        self.health().await.now
    }

    pub(super) async fn pass(&self, duration: Duration) {
        self.fixture.advance(duration).await;
    }

    /// Lets time pass until the store's clock shows `moment`: exactly, if it is a manual one.
    pub(super) async fn reach(&self, moment: Timestamp) {
        loop {
            let left = self.now().await.until(moment);
            if left.is_zero() {
                return;
            }
            self.pass(left).await;
        }
    }

    /// Lets time pass until shortly before `moment`: a millisecond on a manual clock, a unit on a
    /// real one.
    pub(super) async fn reach_just_before(&self, moment: Timestamp) {
        let early = if F::CLOCK.is_manual() { Duration::from_millis(1) } else { F::UNIT };
        self.reach(earlier(moment, early)).await;
    }

    /// Lets the lease run out without a settlement.
    pub(super) async fn abandon(&self, lease: &Lease) {
        self.reach(lease.until()).await;
    }

    /// A record whose lease ran out: its late holder.
    pub(super) async fn abandoned(&self, key: &str) -> Lease {
        let lease = self.lease_with(&attempt(key), &brief::<F>()).await;
        self.abandon(&lease).await;
        lease
    }

    /// Must be `duration` after a moment between `from` and the present.
    pub(super) async fn assert_counts_from(
        &self,
        from: Timestamp,
        duration: Duration,
        moment: Timestamp,
    ) {
        let tolerance = F::CLOCK.tolerance();
        let earliest = earlier(from.plus(duration), tolerance);
        let latest = self.now().await.plus(duration).plus(tolerance);
        assert!(
            earliest <= moment && moment <= latest,
            "{moment} is not between {earliest} and {latest}"
        );
    }
}

/// Rules under which nothing runs out within a case.
pub(super) fn patient() -> Policy {
    rules(Duration::from_mins(1), Duration::from_hours(1), OnAbandoned::Reexecute)
}

/// Rules under which a case can wait: a lease of three units, a retention of twelve.
pub(super) fn brief<F: Fixture>() -> Policy {
    brief_with::<F>(OnAbandoned::Reexecute)
}

pub(super) fn brief_with<F: Fixture>(on_abandoned: OnAbandoned) -> Policy {
    rules(F::UNIT * 3, F::UNIT * 12, on_abandoned)
}

pub(super) fn rules(lease: Duration, ttl: Duration, on_abandoned: OnAbandoned) -> Policy {
    Policy::builder()
        .lease(lease)
        .ttl(ttl)
        .on_abandoned(on_abandoned)
        .build()
        .expect("rules that can work")
}

/// The record of a key that all cases share, each in a store of its own.
pub(super) fn id(key: &str) -> RecordId {
    scoped_id("conformance", "ann", key)
}

pub(super) fn scoped_id(namespace: &str, who: &str, key: &str) -> RecordId {
    let key = Key::parse(key).expect("a key");
    RecordId::new(namespace, &Scope::new([("who", who)]), &key)
}

/// A fresh attempt at `key`.
pub(super) fn attempt(key: &str) -> Attempt {
    attempt_at(id(key))
}

pub(super) fn attempt_at(id: RecordId) -> Attempt {
    Attempt::new(id, request("pay 100"), fresh_owner())
}

/// A fresh attempt that uses `key` for another request.
pub(super) fn other_request(key: &str) -> Attempt {
    Attempt::new(id(key), request("pay 999"), fresh_owner())
}

/// The same attempt, come again after a time-out.
pub(super) fn repeated(attempt: &Attempt) -> Attempt {
    Attempt::new(attempt.id(), attempt.fingerprint(), attempt.owner())
}

pub(super) fn request(body: &str) -> Fingerprint {
    Fingerprint::new([("body", body)])
}

pub(super) fn fresh_owner() -> Owner {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Spread over all 128 bits, so that a store that keeps only some of them is found out.
    let number = u128::from(NEXT.fetch_add(1, Ordering::Relaxed));
    Owner::from_u128(number << 96 | number)
}

pub(super) fn completed(text: &str) -> Settlement {
    Settlement::Completed(Reply::new(text.as_bytes().to_vec()))
}

pub(super) fn failed(text: &str) -> Settlement {
    Settlement::Failed(Reply::new(text.as_bytes().to_vec()))
}

/// The lease of a claim that must have been granted one.
pub(super) fn granted(claim: Claim) -> Lease {
    match claim {
        Claim::Execute(lease) => lease,
        other => panic!("expected Execute, got {other:?}"),
    }
}

/// The outcome that a claim must have been given.
pub(super) fn replayed(claim: Claim) -> Settlement {
    match claim {
        Claim::Replay { settlement, .. } => settlement,
        other => panic!("expected Replay, got {other:?}"),
    }
}

/// The end of the lease that a claim must wait for.
pub(super) fn in_flight(claim: Claim) -> Timestamp {
    match claim {
        Claim::InFlight { until } => until,
        other => panic!("expected InFlight, got {other:?}"),
    }
}

pub(super) fn earlier(moment: Timestamp, by: Duration) -> Timestamp {
    let millis = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
    Timestamp::from_millis(moment.as_millis().saturating_sub(millis))
}
