//! An outcome is recorded once, and replayed from then on.

use semel_core::{Claim, Refusal, Release, Reply, ResultId, Settlement, State};

use super::Fixture;
use super::trial::{Trial, attempt, completed, failed, id, replayed};
use crate::{Released, Renewed, Settled};

/// Every later attempt gets the recorded outcome, and the time until which it is replayed (I4).
pub async fn settled_outcome_is_replayed<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    for _ in 0..3 {
        let claim = trial.claim(&attempt("k")).await;
        let expected = Claim::Replay { settlement: completed("paid"), expires: lease.expires() };
        assert_eq!(claim, expected);
    }
}

/// A failure for good is an outcome too, distinct from a success.
pub async fn failure_is_replayed_as_a_failure<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &failed("card declined")).await;
    let outcome = replayed(trial.claim(&attempt("k")).await);
    assert_eq!(outcome, failed("card declined"));
    assert_ne!(outcome, completed("card declined"));
}

/// The id of what was made stays with its reply.
pub async fn result_id_is_kept<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let result = ResultId::new("charge_42").expect("a result id");
    let outcome = Settlement::Completed(Reply::new("paid").with_result(result.clone()));
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &outcome).await;
    let again = replayed(trial.claim(&attempt("k")).await);
    assert_eq!(again.reply().and_then(Reply::result), Some(&result));
    assert_eq!(trial.record(id("k")).await.state, State::Settled(outcome));
}

/// A settle repeated after a time-out is recognised.
pub async fn repeat_of_a_settle_is_recorded<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    let before = trial.record(id("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    assert_eq!(trial.record(id("k")).await, before);
}

/// The same holder cannot change its outcome: it gets what it recorded first (I2).
pub async fn second_outcome_is_refused_with_the_first<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    let refused = Settled::Refused(Refusal::Settled {
        settlement: completed("paid"),
        expires: lease.expires(),
    });
    let nearly = Settlement::Completed(
        Reply::new("paid").with_result(ResultId::new("charge_42").expect("a result id")),
    );
    for other in [completed("paid twice"), failed("paid"), nearly, Settlement::Abandoned] {
        assert_eq!(trial.settle(&lease, &other).await, refused, "{other:?}");
    }
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// A slow holder that was not replaced may still settle (I3).
pub async fn late_holder_that_was_not_replaced_may_settle<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("k").await;
    trial.record_outcome(&late, &completed("paid")).await;
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// A settlement changes where the record stands, and nothing else about it.
pub async fn settling_changes_the_state_only<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    let mut expected = trial.record(id("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    expected.state = State::Settled(completed("paid"));
    assert_eq!(trial.record(id("k")).await, expected);
}

/// No operation changes a settled record (I2).
pub async fn settled_record_is_final<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    let settled = trial.record(id("k")).await;
    let refusal = || Refusal::Settled { settlement: completed("paid"), expires: settled.expires };
    let renewed = trial.renew(&lease, F::UNIT).await;
    assert_eq!(renewed, Renewed::Refused(refusal()));
    for how in [Release::Retry, Release::Hold] {
        let released = trial.release(&lease, how).await;
        assert_eq!(released, Released::Refused(refusal()));
    }
    let _ = trial.claim(&attempt("k")).await;
    trial.sweep_all(100).await;
    assert_eq!(trial.record(id("k")).await, settled);
}
