use semel_core::{Fence, Fingerprint, Owner};
use semel_store::ManualClock;

use super::*;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

/// Monday, noon, and so long after.
fn noon(after: Duration) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000).plus(after)
}

fn before_noon(by: Duration) -> Timestamp {
    Timestamp::from_millis(noon(Duration::ZERO).as_millis() - millis(by))
}

fn start(wall: Timestamp, mark: Option<Mark>) -> Times {
    Times::start(Arc::new(ManualClock::at(wall)), mark)
}

fn first() -> Times {
    start(noon(Duration::ZERO), None)
}

fn leased(at: Timestamp) -> Record {
    Record {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        created: at,
        expires: at.plus(DAY),
        fence: Fence::FIRST,
        owner: Owner::from_u128(1),
        state: State::Leased { until: at.plus(Duration::from_secs(30)) },
    }
}

/// The record as it counts now, and that it stays so.
fn adjusted(times: &Times, record: &Record) -> Record {
    let mut once = record.clone();
    times.adjust(&mut once, times.now());
    let mut twice = once.clone();
    times.adjust(&mut twice, times.now());
    assert_eq!(once, twice);
    let is_expired = times.is_expired(record.created, record.expires, times.now());
    assert_eq!(once.is_expired(times.now()), is_expired);
    once
}

#[test]
fn without_a_mark_the_machines_time_counts() {
    let times = first();
    assert_eq!(times.now(), noon(Duration::ZERO));
    assert_eq!(times.finding(), Finding::Plausible);
    assert!(times.may_sweep(times.now()));
}

#[test]
fn a_start_soon_after_changes_nothing() {
    let times = start(noon(HOUR), Some(first().mark()));
    assert_eq!((times.now(), times.finding()), (noon(HOUR), Finding::Plausible));
    let record = leased(noon(Duration::ZERO));
    assert_eq!(adjusted(&times, &record), record);
}

#[test]
fn time_goes_on_from_the_mark_if_the_clock_is_behind() {
    let little = start(before_noon(Duration::from_secs(2)), Some(first().mark()));
    assert_eq!((little.now(), little.finding()), (noon(Duration::ZERO), Finding::Plausible));
    let clock = ManualClock::at(before_noon(DAY));
    let times = Times::start(Arc::new(clock.clone()), Some(first().mark()));
    assert_eq!((times.now(), times.finding()), (noon(Duration::ZERO), Finding::Behind(DAY)));
    assert!(!times.may_sweep(times.now()));
    clock.advance(HOUR);
    assert_eq!(times.now(), noon(HOUR));
    assert!(times.may_sweep(times.now()));
}

#[test]
fn a_leap_ahead_expires_nothing() {
    let times = start(noon(DAY * 2), Some(first().mark()));
    assert_eq!((times.now(), times.finding()), (noon(DAY * 2), Finding::Ahead(DAY * 2)));
    assert!(!times.may_sweep(times.now()));
    assert_eq!(adjusted(&times, &leased(noon(Duration::ZERO))), leased(noon(DAY * 2)));
    // Old as it is, it has another hour.
    let old = leased(before_noon(HOUR * 23));
    assert_eq!(adjusted(&times, &old).expires, noon(DAY * 2).plus(HOUR));
    let fresh = leased(noon(DAY * 2));
    assert_eq!(adjusted(&times, &fresh), fresh);
}

/// What ran out while the store was open stays expired.
#[test]
fn a_leap_revives_nothing() {
    let times = start(noon(DAY * 2), Some(first().mark()));
    assert!(adjusted(&times, &leased(before_noon(DAY))).is_expired(times.now()));
}

#[test]
fn records_from_before_two_leaps_are_moved_by_both() {
    let once = start(noon(DAY * 2), Some(first().mark()));
    let twice = start(noon(DAY * 5), Some(once.mark()));
    assert_eq!(twice.finding(), Finding::Ahead(DAY * 3));
    assert_eq!(adjusted(&twice, &leased(noon(Duration::ZERO))), leased(noon(DAY * 5)));
    assert_eq!(adjusted(&twice, &leased(noon(DAY * 2))), leased(noon(DAY * 5)));
    // The next start agrees.
    let again = start(noon(DAY * 5 + HOUR), Some(twice.mark()));
    assert_eq!(again.finding(), Finding::Plausible);
    assert_eq!(adjusted(&again, &leased(noon(Duration::ZERO))), leased(noon(DAY * 5)));
}

#[test]
fn a_wrong_leap_is_undone() {
    let wrong = start(noon(DAY * 2), Some(first().mark()));
    let right = start(noon(Duration::from_mins(10)), Some(wrong.mark()));
    assert_eq!(right.finding(), Finding::WasAhead(DAY * 2));
    assert_eq!(right.now(), noon(Duration::from_mins(10)));
    let record = leased(noon(Duration::ZERO));
    assert_eq!(adjusted(&right, &record), record);
    // What was left in flight meanwhile does not stay so for two days.
    let left = leased(noon(DAY * 2 + HOUR));
    assert_eq!(adjusted(&right, &left), leased(right.now()));
    // And the next start knows nothing of it.
    let next = start(noon(HOUR), Some(right.mark()));
    assert_eq!(next.finding(), Finding::Plausible);
}

/// Wrong by ten days, and right three days later.
#[test]
fn a_wrong_leap_may_be_followed_by_a_right_one() {
    let wrong = start(noon(DAY * 10), Some(first().mark()));
    let right = start(noon(DAY * 3), Some(wrong.mark()));
    assert_eq!((right.now(), right.finding()), (noon(DAY * 3), Finding::Ahead(DAY * 3)));
    assert_eq!(adjusted(&right, &leased(noon(Duration::ZERO))), leased(noon(DAY * 3)));
    assert_eq!(adjusted(&right, &leased(noon(DAY * 10))), leased(noon(DAY * 3)));
}

#[test]
fn leaps_are_not_kept_without_end() {
    let mut times = first();
    for week in 1..100 {
        times = start(noon(DAY * 7 * week), Some(times.mark()));
    }
    assert_eq!(times.mark().leaps.len(), tuning::CLOCK_LEAPS_MAX);
}

#[test]
fn a_mark_survives_being_written() {
    let leapt = start(noon(DAY * 2), Some(first().mark()));
    for mark in [first().mark(), leapt.mark()] {
        assert_eq!(Mark::parse(&mark.to_text()), Some(mark));
    }
    let text = leapt.mark().to_text();
    assert_eq!(text, "semel clock 1700172800000 1700172800000+172800000 crc32 dd48bc43\n");
}

#[test]
fn a_mark_that_is_not_as_it_was_written_is_none() {
    let text = start(noon(DAY * 2), Some(first().mark())).mark().to_text();
    for bit in 0..text.len() * 8 {
        let mut bytes = text.clone().into_bytes();
        bytes[bit / 8] ^= 1 << (bit % 8);
        if let Ok(damaged) = String::from_utf8(bytes) {
            assert_eq!(Mark::parse(&damaged), None, "{damaged:?}");
        }
    }
    for end in 0..text.len() {
        assert_eq!(Mark::parse(&text[..end]), None);
    }
}
