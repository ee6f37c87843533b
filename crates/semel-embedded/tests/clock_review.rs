//! Two starts with a wrong clock as a review found them, each with what must come of it. `clock.rs` has more.
#![allow(clippy::all, clippy::pedantic, clippy::restriction, unused)]

use semel_core::*;
use semel_embedded::*;
use semel_store::*;
use std::sync::Arc;
use std::time::Duration;
fn att(n: u128) -> Attempt {
    Attempt::new(RecordId::from_bytes([9; 32]), Fingerprint::new([("b", "x")]), Owner::from_u128(n))
}
/// The machine boots once with its clock two days ahead (dead RTC battery, VM restored, NTP not yet there).
#[tokio::test]
async fn one_start_with_a_wrong_clock() {
    let d = tempfile::tempdir().unwrap();
    let p = d.path().join("s");
    let now = SteadyClock::start().now();
    let open = |at: Timestamp, sweep| {
        Options::new(&p).clock(Arc::new(ManualClock::at(at))).sweep_every(sweep).open().unwrap()
    };
    let s = open(now, None);
    let Claim::Execute(l) = s.claim(&att(1), &Policy::default()).await.unwrap() else { panic!() };
    assert_eq!(
        s.settle(&l, Settlement::Completed(Reply::new("charged"))).await.unwrap(),
        Settled::Recorded
    );
    drop(s);
    let s = open(now.plus(Duration::from_secs(2 * 86400)), Some(Duration::from_millis(10))); // wrong start
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(s);
    let s = open(now.plus(Duration::from_secs(60)), None); // right again, a minute after the charge
    let claim = s.claim(&att(2), &Policy::default()).await.unwrap();
    assert!(matches!(claim, Claim::Replay { .. }), "a minute after it was settled: {claim:?}");
}
/// ... or two days behind: what a crashed process left is in flight for two days.
#[tokio::test]
async fn one_start_with_a_clock_behind() {
    let d = tempfile::tempdir().unwrap();
    let p = d.path().join("s");
    let now = SteadyClock::start().now();
    let open = |at: Timestamp| {
        Options::new(&p).clock(Arc::new(ManualClock::at(at))).sweep_every(None).open().unwrap()
    };
    let s = open(now);
    let _ = s.claim(&att(1), &Policy::default()).await.unwrap();
    drop(s);
    let back = now.as_millis() - 2 * 86400 * 1000;
    let s = open(Timestamp::from_millis(back));
    let claim = s.claim(&att(2), &Policy::default()).await.unwrap();
    let Claim::InFlight { until } = claim else { panic!("{claim:?}") };
    let left = s.clock().now().until(until);
    assert!(left <= Policy::default().lease(), "in flight for {left:?}");
}
