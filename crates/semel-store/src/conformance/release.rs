//! A lease is handed back: to be tried again, or to be held.

use semel_core::{Claim, Fence, Refusal, Release, State};

use super::Fixture;
use super::trial::{Trial, attempt, brief, completed, id, replayed};
use crate::{Released, Renewed, Settled};

/// Work that did not happen may be tried again, under the next fence.
pub async fn released_work_executes_again<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let first = trial.lease(&attempt("k")).await;
    trial.hand_back(&first, Release::Retry).await;
    assert_eq!(trial.record(id("k")).await.state, State::Released);
    let second = trial.lease(&attempt("k")).await;
    assert_eq!(second.fence(), Fence::FIRST.next());
    assert!(second.expires() >= first.expires());
}

/// Work that may have happened is not tried again: the others get *unknown*.
pub async fn held_work_is_unknown_to_others<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.hand_back(&lease, Release::Hold).await;
    let held = trial.record(id("k")).await;
    assert_eq!(held.state, State::Held);
    assert_eq!(trial.claim(&attempt("k")).await, Claim::Unknown);
    assert_eq!(trial.record(id("k")).await, held);
}

/// A held record stays held when its lease runs out, under every policy for abandoned work.
pub async fn held_work_stays_held_past_its_lease<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease_with(&attempt("k"), &brief::<F>()).await;
    trial.hand_back(&lease, Release::Hold).await;
    trial.abandon(&lease).await;
    assert_eq!(trial.claim(&attempt("k")).await, Claim::Unknown);
}

/// A holder that reported the outcome unknown and learns it later may settle.
pub async fn held_work_is_settled_by_its_holder<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.hand_back(&lease, Release::Hold).await;
    trial.record_outcome(&lease, &completed("paid after all")).await;
    let outcome = replayed(trial.claim(&attempt("k")).await);
    assert_eq!(outcome, completed("paid after all"));
}

/// A release repeated after a time-out is recognised.
pub async fn repeat_of_a_release_is_done<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    for (key, how) in [("retry", Release::Retry), ("hold", Release::Hold)] {
        let lease = trial.lease(&attempt(key)).await;
        trial.hand_back(&lease, how).await;
        let before = trial.record(id(key)).await;
        trial.hand_back(&lease, how).await;
        assert_eq!(trial.record(id(key)).await, before);
    }
}

/// What was handed back one way cannot be handed back the other way.
pub async fn one_release_excludes_the_other<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let both = [("retry", Release::Retry, Release::Hold), ("hold", Release::Hold, Release::Retry)];
    for (key, how, other) in both {
        let lease = trial.lease(&attempt(key)).await;
        trial.hand_back(&lease, how).await;
        let before = trial.record(id(key)).await;
        let refused = trial.release(&lease, other).await;
        assert_eq!(refused, Released::Refused(Refusal::Superseded));
        assert_eq!(trial.record(id(key)).await, before);
    }
}

/// A holder that released the lease for a retry can no longer settle or renew (I3).
pub async fn released_lease_is_spent<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.hand_back(&lease, Release::Retry).await;
    let settled = trial.settle(&lease, &completed("paid")).await;
    assert_eq!(settled, Settled::Refused(Refusal::Superseded));
    let renewed = trial.renew(&lease, F::UNIT).await;
    assert_eq!(renewed, Renewed::Refused(Refusal::Superseded));
    assert_eq!(trial.record(id("k")).await.state, State::Released);
}

/// What is settled cannot be handed back: the holder gets the outcome instead (trap 6).
pub async fn release_after_settle_is_refused<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let lease = trial.lease(&attempt("k")).await;
    trial.record_outcome(&lease, &completed("paid")).await;
    for how in [Release::Retry, Release::Hold] {
        let refusal = Refusal::Settled { settlement: completed("paid"), expires: lease.expires() };
        let released = trial.release(&lease, how).await;
        assert_eq!(released, Released::Refused(refusal));
    }
    assert_eq!(replayed(trial.claim(&attempt("k")).await), completed("paid"));
}

/// A slow holder that was not replaced may still hand its lease back.
pub async fn late_holder_that_was_not_replaced_may_release<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let late = trial.abandoned("retry").await;
    trial.hand_back(&late, Release::Retry).await;
    let next = trial.lease(&attempt("retry")).await;
    assert_eq!(next.fence(), Fence::FIRST.next());
    let late = trial.abandoned("hold").await;
    trial.hand_back(&late, Release::Hold).await;
    assert_eq!(trial.claim(&attempt("hold")).await, Claim::Unknown);
}
