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

fn start_of(wall: Timestamp, past: Past) -> Times {
    Times::start(Arc::new(ManualClock::at(wall)), past)
}

fn start(wall: Timestamp, mark: Mark) -> Times {
    start_of(wall, Past::Marked { mark, stale: Duration::ZERO })
}

fn first() -> Times {
    start_of(noon(Duration::ZERO), Past::New)
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
fn in_a_new_directory_the_machines_time_counts() {
    let times = first();
    assert_eq!(times.now(), noon(Duration::ZERO));
    assert_eq!(times.finding(), Finding::Plausible);
    assert!(times.may_sweep(times.now()));
}

#[test]
fn a_start_soon_after_changes_nothing() {
    let times = start(noon(HOUR), first().mark());
    assert_eq!((times.now(), times.finding()), (noon(HOUR), Finding::Plausible));
    let record = leased(noon(Duration::ZERO));
    assert_eq!(adjusted(&times, &record), record);
}

#[test]
fn time_goes_on_from_the_mark_if_the_clock_is_behind() {
    let little = start(before_noon(Duration::from_secs(2)), first().mark());
    assert_eq!((little.now(), little.finding()), (noon(Duration::ZERO), Finding::Plausible));
    let clock = ManualClock::at(before_noon(DAY));
    let times = {
        let past = Past::Marked { mark: first().mark(), stale: Duration::ZERO };
        Times::start(Arc::new(clock.clone()), past)
    };
    assert_eq!((times.now(), times.finding()), (noon(Duration::ZERO), Finding::Behind(DAY)));
    assert!(!times.may_sweep(times.now()));
    clock.advance(HOUR);
    assert_eq!(times.now(), noon(HOUR));
    assert!(times.may_sweep(times.now()));
}

#[test]
fn a_leap_ahead_expires_nothing() {
    let times = start(noon(DAY * 2), first().mark());
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
    let times = start(noon(DAY * 2), first().mark());
    assert!(adjusted(&times, &leased(before_noon(DAY))).is_expired(times.now()));
}

#[test]
fn records_from_before_two_leaps_are_moved_by_both() {
    let once = start(noon(DAY * 2), first().mark());
    let twice = start(noon(DAY * 5), once.mark());
    assert_eq!(twice.finding(), Finding::Ahead(DAY * 3));
    assert_eq!(adjusted(&twice, &leased(noon(Duration::ZERO))), leased(noon(DAY * 5)));
    assert_eq!(adjusted(&twice, &leased(noon(DAY * 2))), leased(noon(DAY * 5)));
    // The next start agrees.
    let again = start(noon(DAY * 5 + HOUR), twice.mark());
    assert_eq!(again.finding(), Finding::Plausible);
    assert_eq!(adjusted(&again, &leased(noon(Duration::ZERO))), leased(noon(DAY * 5)));
}

#[test]
fn a_wrong_leap_is_undone() {
    let wrong = start(noon(DAY * 2), first().mark());
    let right = start(noon(Duration::from_mins(10)), wrong.mark());
    assert_eq!(right.finding(), Finding::WasAhead(DAY * 2));
    assert_eq!(right.now(), noon(Duration::from_mins(10)));
    let record = leased(noon(Duration::ZERO));
    assert_eq!(adjusted(&right, &record), record);
    // What was left in flight meanwhile does not stay so for two days.
    let left = leased(noon(DAY * 2 + HOUR));
    assert_eq!(adjusted(&right, &left), leased(right.now()));
    // And the next start knows nothing of it.
    let next = start(noon(HOUR), right.mark());
    assert_eq!(next.finding(), Finding::Plausible);
}

/// Wrong by ten days, and right three days later.
#[test]
fn a_wrong_leap_may_be_followed_by_a_right_one() {
    let wrong = start(noon(DAY * 10), first().mark());
    let right = start(noon(DAY * 3), wrong.mark());
    assert_eq!((right.now(), right.finding()), (noon(DAY * 3), Finding::Ahead(DAY * 3)));
    assert_eq!(adjusted(&right, &leased(noon(Duration::ZERO))), leased(noon(DAY * 3)));
    assert_eq!(adjusted(&right, &leased(noon(DAY * 10))), leased(noon(DAY * 3)));
}

/// Closed for a weekend, months ago. A clock that is a little behind is no reason to doubt that.
#[test]
fn a_small_step_back_undoes_no_genuine_leap() {
    let weekend = start(noon(HOUR * 60), first().mark());
    for minutes in 6..60 {
        let last_use = HOUR * 60 + DAY * 90;
        let later = start(noon(last_use), Mark { time: noon(last_use), ..weekend.mark() });
        let by = Duration::from_mins(minutes);
        let times = start(noon(last_use.saturating_sub(by)), later.mark());
        assert_eq!((times.now(), times.finding()), (noon(last_use), Finding::Behind(by)));
        assert_eq!(times.mark().leaps, weekend.mark().leaps);
        let lapsed = leased(noon(last_use.saturating_sub(HOUR * 21)));
        assert_eq!(adjusted(&times, &lapsed), lapsed);
    }
}

/// Neither with the leap nor without it is the mark near the clock. Records that were made after the
/// leap are not from before the one that is put in its place.
#[test]
fn a_leap_in_place_of_another_keeps_its_place() {
    let leapt = start(noon(DAY * 10), first().mark());
    let last_use = DAY * 20;
    let mark = Mark { time: noon(last_use), ..leapt.mark() };
    let times = start(noon(DAY * 13), mark);
    assert_eq!((times.now(), times.finding()), (noon(DAY * 13), Finding::Ahead(DAY * 3)));
    let record = leased(noon(DAY * 11));
    assert_eq!(adjusted(&times, &record), record);
    let before = adjusted(&times, &leased(noon(Duration::ZERO)));
    assert_eq!(before.expires, noon(DAY * 4));
}

/// An older version had the directory for three days, and left the mark as it was.
#[test]
fn a_stale_mark_keeps_no_lease_alive() {
    let past = Past::Marked { mark: first().mark(), stale: DAY * 3 };
    let times = start_of(noon(DAY * 3 + HOUR), past);
    assert_eq!(times.finding(), Finding::Ahead(DAY * 3 + HOUR));
    let is_live = |times: &Times, record: &Record| {
        let State::Leased { until } = adjusted(times, record).state else { panic!("{record:?}") };
        times.now() < until
    };
    // Granted again, two days later.
    let mut record = leased(before_noon(HOUR));
    record.state = State::Leased { until: noon(DAY * 2) };
    record.expires = noon(DAY * 3);
    assert!(!is_live(&times, &record));
    assert!(!adjusted(&times, &record).is_expired(times.now()), "outcomes are kept as before");
    // The next start agrees, and what was live when the store was last written to has its time.
    let again = start(noon(DAY * 3 + HOUR * 2), times.mark());
    assert!(!is_live(&again, &record));
    record.state = State::Leased { until: noon(DAY * 3 + Duration::from_secs(30)) };
    assert!(is_live(&times, &record));
}

/// The store was open when a record was made, even if the mark is older.
#[test]
fn a_record_that_is_younger_than_the_mark_counts_from_the_start_at_most() {
    let times = start(noon(DAY * 3), first().mark());
    assert_eq!(adjusted(&times, &leased(noon(DAY * 2))), leased(noon(DAY * 3)));
    let twice = start(noon(DAY * 6), times.mark());
    assert_eq!(adjusted(&twice, &leased(noon(DAY * 2))), leased(noon(DAY * 6)));
}

#[test]
fn without_a_mark_the_last_write_to_the_log_stands_in() {
    let unmarked = || Past::Unmarked { last_write: Some(noon(Duration::ZERO)) };
    let soon = start_of(noon(HOUR / 2), unmarked());
    assert_eq!((soon.now(), soon.finding()), (noon(HOUR / 2), Finding::Unmarked));
    assert!(!soon.may_sweep(soon.now()), "its time may be that of a copy");
    let record = leased(noon(Duration::ZERO));
    assert_eq!(adjusted(&soon, &record), record);
    let ahead = start_of(noon(DAY * 2), unmarked());
    assert_eq!(ahead.finding(), Finding::Ahead(DAY * 2));
    assert_eq!(adjusted(&ahead, &record), leased(noon(DAY * 2)));
}

#[test]
fn without_anything_to_go_by_all_records_count_from_the_start() {
    for last_write in [None, Some(noon(DAY * 3))] {
        let times = start_of(noon(DAY * 2), Past::Unmarked { last_write });
        assert_eq!((times.now(), times.finding()), (noon(DAY * 2), Finding::Unknown));
        assert!(!times.may_sweep(times.now()));
        assert_eq!(adjusted(&times, &leased(noon(Duration::ZERO))), leased(noon(DAY * 2)));
        let right = start(noon(HOUR), times.mark());
        let record = adjusted(&right, &leased(noon(Duration::ZERO)));
        assert!(!record.is_expired(right.now()));
    }
}

#[test]
fn leaps_are_not_kept_without_end() {
    let mut times = first();
    for week in 1..100 {
        times = start(noon(DAY * 7 * week), times.mark());
    }
    assert_eq!(times.mark().leaps.len(), tuning::CLOCK_LEAPS_MAX);
}

#[test]
fn a_mark_survives_being_written() {
    let leapt = start(noon(DAY * 2), first().mark());
    let stale = Past::Marked { mark: leapt.mark(), stale: HOUR };
    let stale = start_of(noon(DAY * 4), stale).mark();
    for mark in [first().mark(), leapt.mark(), stale] {
        assert_eq!(Mark::parse(&mark.to_text()), Some(mark));
    }
    let text = leapt.mark().to_text();
    assert_eq!(text, "semel clock 1700172800000 1700172800000+172800000 crc32 dd48bc43\n");
}

#[test]
fn a_mark_that_is_not_as_it_was_written_is_none() {
    let text = start(noon(DAY * 2), first().mark()).mark().to_text();
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
