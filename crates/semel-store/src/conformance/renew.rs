//! A holder that is alive keeps its lease (trap 17).

use semel_core::{Lease, Refusal, Release, State, Timestamp};

use super::Fixture;
use super::trial::{Trial, attempt, brief, completed, id, in_flight};
use crate::Renewed;

/// Must have been extended: until when, and when the record expires.
fn extended(renewed: Renewed) -> (Timestamp, Timestamp) {
    match renewed {
        Renewed::Until { until, expires } => (until, expires),
        Renewed::Refused(refusal) => panic!("expected Until, got {refusal:?}"),
    }
}

async fn assert_refused<F: Fixture>(trial: &Trial<F>, lease: &Lease, refusal: Refusal) {
    let before = trial.inspect(lease.id()).await;
    let renewed = trial.renew(lease, F::UNIT).await;
    assert_eq!(renewed, Renewed::Refused(refusal));
    assert_eq!(trial.inspect(lease.id()).await, before);
}

/// A renewed lease counts from the renewal, and all attempts see it.
pub async fn renewal_extends_the_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.pass(F::UNIT).await;
    let before = trial.now().await;
    let (until, expires) = extended(trial.renew(&lease, F::UNIT * 5).await);
    trial.assert_counts_from(before, F::UNIT * 5, until).await;
    assert_eq!(expires, lease.expires());
    assert_eq!(trial.record(id("k")).await.state, State::Leased { until });
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), until);
}

/// Renewed in time, a lease keeps others out beyond the end of the first one (I1).
pub async fn renewal_keeps_others_out<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let mut lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    let first_end = lease.until();
    for _ in 0..2 {
        trial.pass(F::UNIT).await;
        let (until, expires) = extended(trial.renew(&lease, F::UNIT * 3).await);
        lease.renewed(until, expires);
    }
    trial.reach(first_end).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
    trial.abandon(&lease).await;
    let second = trial.lease(&attempt("k")).await;
    assert!(second.fence() > lease.fence());
}

/// A lease never gets shorter than its holder believes: another attempt could be granted the
/// rest (I1).
pub async fn renewal_never_shortens_the_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    let (until, _) = extended(trial.renew(&lease, F::UNIT).await);
    assert_eq!(until, lease.until());
    trial.pass(F::UNIT).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), lease.until());
}

/// A record must outlive its lease, or a second one could be granted beside it (I1).
pub async fn record_outlives_its_renewed_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    let (until, expires) = extended(trial.renew(&lease, F::UNIT * 20).await);
    assert!(until > lease.expires());
    assert_eq!(expires, until);
    assert_eq!(trial.record(id("k")).await.expires, expires);
}

/// A renewal never shortens a record's life.
pub async fn renewal_never_shortens_retention<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    let (_, expires) = extended(trial.renew(&lease, F::UNIT).await);
    assert_eq!(expires, lease.expires());
}

/// A slow holder that was not replaced may take up its lease again (I3).
pub async fn late_holder_that_was_not_replaced_may_renew<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let (until, _) = extended(trial.renew(&late, F::UNIT * 3).await);
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), until);
    assert!(trial.record(id("k")).await.is_current(&late));
}

/// A replaced holder cannot renew (I3, trap 1).
pub async fn renewal_after_takeover_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    let successor = trial.lease(&attempt("k")).await;
    assert_refused(&trial, &late, Refusal::Superseded).await;
    assert_eq!(in_flight(trial.claim(&attempt("k")).await), successor.until());
}

/// What is settled needs no lease: the holder gets the outcome.
pub async fn renewal_after_settle_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    let refusal = Refusal::Settled { settlement: completed("paid"), expires: lease.expires() };
    assert_refused(&trial, &lease, refusal).await;
}

/// A lease that was handed back is not taken up again.
pub async fn renewal_after_release_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for (key, how) in [("retry", Release::Retry), ("hold", Release::Hold)] {
        let lease = trial.lease(&attempt(key)).await;
        trial.hand_back(&lease, how).await;
        assert_refused(&trial, &lease, Refusal::Superseded).await;
    }
}
