//! Which attempt is granted the right to execute, and which must wait.

use std::time::Duration;

use semel_core::{Claim, Fence, OnAbandoned, Release, State};

use super::Fixture;
use super::trial::{Trial, attempt, attempt_at, granted, id, in_flight, patient, rules, scoped_id};

/// The first claim is granted a lease with all its fields.
pub async fn first_claim_executes<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let (first, policy) = (attempt("k"), patient());
    let before = trial.now().await;
    let lease = trial.lease(&first).await;
    assert_eq!(lease.id(), first.id());
    assert_eq!(lease.fingerprint(), first.fingerprint());
    assert_eq!(lease.owner(), first.owner());
    assert_eq!(lease.fence(), Fence::FIRST);
    trial.assert_counts_from(before, policy.lease(), lease.until()).await;
    trial.assert_counts_from(before, policy.ttl(), lease.expires()).await;
}

/// While the first executes, the second waits for the end of the first one's lease (I1).
pub async fn second_claim_is_in_flight<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
}

/// An attempt that waits has no lease and writes nothing (trap 8).
pub async fn waiting_claims_write_nothing<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let _lease = trial.lease(&attempt("k")).await;
    let before = trial.record(id("k")).await;
    let longer = rules(Duration::from_hours(2), Duration::from_hours(9), OnAbandoned::Hold);
    let _ = in_flight(trial.claim_with(&attempt("k"), &longer).await);
    assert_eq!(trial.record(id("k")).await, before);
}

/// A granted lease is what `inspect` shows.
pub async fn granted_lease_is_on_record<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    assert_eq!(trial.inspect(id("k")).await, None);
    let before = trial.now().await;
    let lease = trial.lease(&attempt("k")).await;
    let record = trial.record(id("k")).await;
    assert!(record.is_current(&lease));
    assert_eq!(record.fingerprint, lease.fingerprint());
    assert_eq!(record.expires, lease.expires());
    assert_eq!(record.state, State::Leased { until: lease.until() });
    trial.assert_counts_from(before, Duration::ZERO, record.created).await;
}

/// Keys are independent of each other.
pub async fn different_keys_are_independent<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let one = trial.lease(&attempt("one")).await;
    let two = trial.lease(&attempt("two")).await;
    trial.hand_back(&one, Release::Retry).await;
    assert_eq!(in_flight(trial.claim(&attempt("two")).await), two.until());
}

/// The same key of another client or another application is another record (I7, trap 10).
pub async fn scopes_and_namespaces_are_kept_apart<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let ids = [("shop", "ann"), ("shop", "bob"), ("bank", "ann")]
        .map(|(namespace, who)| scoped_id(namespace, who, "k"));
    for id in ids {
        assert_eq!(trial.lease(&attempt_at(id)).await.fence(), Fence::FIRST);
    }
    for id in ids {
        let _ = in_flight(trial.claim(&attempt_at(id)).await);
    }
}

/// Every lease granted is counted.
pub async fn attempts_are_counted<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for count in 1..=5 {
        let lease = trial.lease(&attempt("k")).await;
        assert_eq!(lease.fence().get(), count);
        let _ = in_flight(trial.claim(&attempt("k")).await);
        assert_eq!(trial.record(id("k")).await.attempts(), count);
        trial.hand_back(&lease, Release::Retry).await;
        assert_eq!(trial.record(id("k")).await.attempts(), count);
    }
}

/// A lease and its retention have the durations of its own claim's policy, not of an earlier one's.
pub async fn each_claim_brings_its_own_policy<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = trial.lease(&attempt("k")).await;
    trial.hand_back(&first, Release::Retry).await;
    let longer = rules(Duration::from_mins(9), Duration::from_hours(9), OnAbandoned::Hold);
    let before = trial.now().await;
    let second = granted(trial.claim_with(&attempt("k"), &longer).await);
    trial.assert_counts_from(before, longer.lease(), second.until()).await;
    trial.assert_counts_from(before, longer.ttl(), second.expires()).await;
}

/// `inspect` changes nothing.
pub async fn looking_changes_nothing<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    assert_eq!(trial.inspect(id("k")).await, None);
    let lease = trial.lease(&attempt("k")).await;
    let seen = trial.record(id("k")).await;
    assert_eq!(trial.record(id("k")).await, seen);
    assert!(matches!(trial.claim(&attempt("k")).await, Claim::InFlight { .. }));
    assert!(seen.is_current(&lease));
}
