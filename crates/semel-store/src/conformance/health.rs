//! The health of a store.

use super::Fixture;
use super::trial::Trial;

/// A store that works reports its kind, always the same.
pub async fn store_names_its_kind<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let kind = trial.health().await.kind;
    assert!(!kind.is_empty());
    assert_eq!(trial.health().await.kind, kind);
}

/// The store's clock is the one the fixture moves (trap 18).
pub async fn clock_moves_with_the_store<F: Fixture>() {
    let trial = Trial::<F>::begin().await;
    let before = trial.now().await;
    trial.pass(F::UNIT * 2).await;
    let passed = before.until(trial.now().await);
    assert!(passed + F::CLOCK.tolerance() >= F::UNIT * 2, "{passed:?}");
    if F::CLOCK.is_manual() {
        assert_eq!(passed, F::UNIT * 2);
    }
}
