//! Local exhaustion, which is no outage of the store.

use super::*;

/// The story: a process without descriptors counted each failed call as an outage, its breaker opened, and routes that
/// fail open executed without protection.
#[tokio::test(start_paused = true)]
async fn local_exhaustion_does_not_move_the_breaker() {
    let (inner, guarded) = setup(opens_after(2));
    inner.set_behaviour(Behaviour::NotAsked);
    for _ in 0..10 {
        let error = guarded.health().await.unwrap_err();
        assert!(error.is_local() && !error.is_outage(), "{error}");
        assert_eq!(guarded.state(), BreakerState::Closed);
    }
    // It neither resets the count of failures nor ends an outage.
    inner.set_behaviour(Behaviour::Unavailable);
    unavailable(&guarded).await;
    inner.set_behaviour(Behaviour::NotAsked);
    assert!(guarded.health().await.is_err());
    inner.set_behaviour(Behaviour::Unavailable);
    unavailable(&guarded).await;
    assert_eq!(guarded.state(), BreakerState::Open);
    advance(Guard::default().open_for).await;
    inner.set_behaviour(Behaviour::NotAsked);
    assert!(guarded.health().await.unwrap_err().is_local());
    assert_ne!(guarded.state(), BreakerState::Closed);
    inner.set_behaviour(Behaviour::Normal);
    assert!(guarded.health().await.is_ok());
    assert_eq!(guarded.state(), BreakerState::Closed);
}

/// I10, trap 25: calls do not pile up behind a slow store.
#[tokio::test(start_paused = true)]
async fn calls_beyond_the_limit_fail_at_once() {
    let guard = Guard { calls_max: 2, ..opens_after(1) };
    let (inner, guarded) = setup(guard);
    inner.set_behaviour(Behaviour::Slow(MILLISECOND));
    let (mut one, mut two) = (guarded.health(), guarded.health());
    assert!(begin(&mut one).is_pending());
    assert!(begin(&mut two).is_pending());
    let error = guarded.health().await.unwrap_err();
    assert!(error.is_local() && error.to_string().contains("2 calls"), "{error}");
    assert_eq!((inner.take_calls(), guarded.state()), (2, BreakerState::Closed));
    assert!(one.await.is_ok() && two.await.is_ok());
    assert!(guarded.health().await.is_ok());
}
