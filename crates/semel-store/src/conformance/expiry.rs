//! A record past its expiry does not count, swept or not (trap 16).

use semel_core::{Claim, Fence, OnAbandoned, Release};

use super::Fixture;
use super::trial::{
    Trial, attempt, brief, completed, id, in_flight, other_request, repeated, replayed, rules,
};
use crate::Renewed;

/// Past its retention a key is new again.
pub async fn settled_record_past_its_ttl_executes_again<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    trial.reach(lease.expires()).await;
    let again = trial.lease(&attempt("k")).await;
    assert_eq!(again.fence(), Fence::FIRST);
    assert!(again.expires() > lease.expires());
}

/// Up to its last moment a record is replayed.
pub async fn record_is_replayed_until_it_expires<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    trial.reach_just_before(lease.expires()).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// Retention counts from the claim that was granted, not from when its work was settled.
pub async fn ttl_counts_from_the_claim<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.pass(F::UNIT * 2).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(trial.record(id("k")).await.expires, lease.expires());
    trial.reach(lease.expires()).await;
    assert_eq!(trial.lease(&attempt("k")).await.fence(), Fence::FIRST);
}

/// `inspect` of an expired record returns none.
pub async fn expired_record_is_not_seen<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    trial.reach_just_before(lease.expires()).await;
    assert!(trial.inspect(id("k")).await.is_some());
    trial.reach(lease.expires()).await;
    assert_eq!(trial.inspect(id("k")).await, None);
}

/// Released, held and abandoned records expire as settled ones do.
pub async fn unsettled_records_expire_too<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let released = trial.lease_with(&attempt("released"), &brief::<F>()).await;
    let held = trial.lease_with(&attempt("held"), &brief::<F>()).await;
    let abandoned = trial.lease_with(&attempt("abandoned"), &brief::<F>()).await;
    trial.hand_back(&released, Release::Retry).await;
    trial.hand_back(&held, Release::Hold).await;
    trial.reach(abandoned.expires()).await;
    for key in ["released", "held", "abandoned"] {
        assert_eq!(trial.inspect(id(key)).await, None, "{key}");
        assert_eq!(trial.lease(&attempt(key)).await.fence(), Fence::FIRST, "{key}");
    }
}

/// An expired key may be used for another request.
pub async fn expired_key_is_free_for_another_request<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(trial.claim(&other_request("k")).await, Claim::Mismatch);
    trial.reach(lease.expires()).await;
    let other = trial.lease(&other_request("k")).await;
    assert_eq!(other.fence(), Fence::FIRST);
    assert_eq!(trial.claim(&attempt("k")).await, Claim::Mismatch);
}

/// As long as work is renewed it is in flight, also past its retention (I1, trap 5).
pub async fn renewed_work_is_in_flight_past_its_ttl<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let mut lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    let first_expires = lease.expires();
    match trial.renew(&lease, brief::<F>().ttl() + F::UNIT * 3).await {
        Renewed::Until { until, expires } => lease.renewed(until, expires),
        Renewed::Refused(refusal) => panic!("expected Until, got {refusal:?}"),
    }
    trial.reach(first_expires).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// A lease granted shortly before the record would expire keeps it for a whole retention, from any
/// state of the record: its outcome is replayed for as long as any other.
pub async fn late_lease_starts_the_retention_again<F: Fixture>() {
    for released in [true, false] {
        let trial = Trial::<F>::begin().await;
        let first = trial.lease_with(&attempt("k"), &brief::<F>()).await;
        if released {
            trial.hand_back(&first, Release::Retry).await;
        }
        trial.reach_just_before(first.expires()).await;
        let before = trial.now().await;
        let second = trial.lease_with(&attempt("k"), &brief::<F>()).await;
        assert_eq!(second.fence(), Fence::FIRST.next());
        trial.assert_counts_from(before, brief::<F>().ttl(), second.expires()).await;
        trial.record_outcome(&second, &completed("paid")).await;
        trial.reach(first.expires()).await;
        assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
        trial.reach_just_before(second.expires()).await;
        assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
        trial.reach(second.expires()).await;
        assert_eq!(trial.inspect(id("k")).await, None);
    }
}

/// Its owner's own claim, repeated, is a grant as well.
pub async fn repeated_claim_starts_the_retention_again<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let owner = attempt("k");
    let first = trial.lease_with(&owner, &brief::<F>()).await;
    trial.reach_just_before(first.expires()).await;
    let before = trial.now().await;
    let again = trial.lease_with(&repeated(&owner), &brief::<F>()).await;
    trial.assert_counts_from(before, brief::<F>().ttl(), again.expires()).await;
    trial.record_outcome(&again, &completed("paid")).await;
    trial.reach(first.expires()).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// A takeover is part of the same life, and a claim with a shorter retention than is left
/// does not shorten it.
pub async fn takeover_never_shortens_the_records_life<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let long = rules(F::UNIT * 3, F::UNIT * 40, OnAbandoned::Reexecute);
    let late = trial.lease_with(&attempt("k"), &long).await;
    trial.abandon(&late).await;
    let before = trial.record(id("k")).await;
    let second = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    let after = trial.record(id("k")).await;
    assert_eq!(after.created, before.created);
    assert_eq!(after.expires, late.expires());
    assert_eq!(second.expires(), late.expires());
}

/// Attempts without a grant do not extend the life of a record.
pub async fn refused_claims_leave_the_retention_alone<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = attempt("k");
    let lease = trial.lease_with(&first, &brief::<F>()).await;
    let _ = in_flight(trial.claim(&attempt("k")).await);
    trial.hand_back(&lease, Release::Retry).await;
    let _ = in_flight(trial.claim(&repeated(&first)).await);
    assert_eq!(trial.claim(&other_request("k")).await, Claim::Mismatch);
    assert_eq!(trial.record(id("k")).await.expires, lease.expires());
    trial.reach(lease.expires()).await;
    assert_eq!(trial.inspect(id("k")).await, None);
}
