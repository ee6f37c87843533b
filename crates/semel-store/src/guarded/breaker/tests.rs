use super::*;

const OPEN_FOR: Duration = Duration::from_secs(10);
const OPEN_FOR_MAX: Duration = OPEN_FOR.saturating_mul(4);

/// What happens to the breaker, in order, at a second.
enum Event {
    /// A call is let through and answered.
    Answered,
    /// A call is let through and fails.
    Failed,
    /// A call is let through and dropped.
    Dropped,
    /// A call is not let through.
    Refused,
}

use BreakerState::{Closed, HalfOpen, Open};
use Event::{Answered, Dropped, Failed, Refused};

fn breaker() -> (Breaker, Instant) {
    (Breaker::new(3, OPEN_FOR..=OPEN_FOR_MAX), Instant::now())
}

fn cause() -> Cause {
    Cause::from("no route")
}

fn play(events: &[(u64, Event, BreakerState)]) {
    let (mut breaker, start) = breaker();
    for (number, (second, event, expected)) in events.iter().enumerate() {
        let now = start + Duration::from_secs(*second);
        let admitted = breaker.admit(Caller::User, now);
        match (event, admitted) {
            (Answered, Ok(ticket)) => breaker.answered(&ticket),
            (Failed, Ok(ticket)) => breaker.failed(&ticket, now, false, cause),
            (Dropped, Ok(ticket)) => breaker.dropped(&ticket, now),
            (Refused, Err(why)) => assert_eq!(why, cause()),
            (_, admitted) => panic!("event {number}: {admitted:?}"),
        }
        assert_eq!(breaker.state(), *expected, "event {number}");
    }
}

#[test]
fn failures_in_a_row_open_it() {
    play(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
        (0, Refused, Open),
        (9, Refused, Open),
    ]);
}

#[test]
fn an_answer_between_failures_starts_the_count_anew() {
    play(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Answered, Closed),
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
    ]);
}

#[test]
fn dropped_calls_say_nothing() {
    play(&[(0, Failed, Closed), (0, Failed, Closed), (0, Dropped, Closed), (0, Failed, Open)]);
}

#[test]
fn a_probe_that_is_answered_closes_it() {
    play(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
        (10, Answered, Closed),
        (10, Failed, Closed),
        (10, Failed, Closed),
        (10, Failed, Open),
    ]);
}

#[test]
fn each_probe_that_fails_opens_it_for_longer() {
    play(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
        (10, Failed, Open),
        (29, Refused, Open),
        (30, Failed, Open),
        (69, Refused, Open),
        (70, Failed, Open),
        (109, Refused, Open),
        (110, Answered, Closed),
        (110, Failed, Closed),
        (110, Failed, Closed),
        (110, Failed, Open),
        (120, Answered, Closed),
    ]);
}

#[test]
fn a_probe_that_is_dropped_makes_room_for_the_next() {
    play(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
        (10, Dropped, Open),
        (10, Dropped, Open),
        (10, Answered, Closed),
    ]);
}

/// A breaker that has just opened, and a call that began before.
fn opened() -> (Breaker, Instant, Ticket) {
    let (mut breaker, now) = breaker();
    let straggler = breaker.admit(Caller::User, now).unwrap();
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, now).unwrap();
        breaker.failed(&ticket, now, false, cause);
    }
    (breaker, now, straggler)
}

#[test]
fn only_one_probe_is_let_through() {
    let (mut breaker, now, _) = opened();
    let later = now + OPEN_FOR;
    let probe = breaker.admit(Caller::User, later).unwrap();
    assert_eq!(breaker.state(), HalfOpen);
    assert_eq!(breaker.admit(Caller::User, later), Err(cause()));
    assert_eq!(breaker.admit(Caller::User, later + OPEN_FOR), Err(cause()));
    breaker.answered(&probe);
    assert!(breaker.admit(Caller::User, later).is_ok());
}

#[test]
fn a_straggler_neither_closes_nor_opens_it() {
    let (mut breaker, now, straggler) = opened();
    breaker.answered(&straggler);
    assert_eq!(breaker.state(), Open);
    let probe = breaker.admit(Caller::User, now + OPEN_FOR).unwrap();
    breaker.answered(&straggler);
    breaker.failed(&straggler, now, false, cause);
    breaker.dropped(&straggler, now);
    assert_eq!(breaker.state(), HalfOpen);
    breaker.answered(&probe);
    for _ in 0..3 {
        breaker.failed(&straggler, now, false, cause);
    }
    assert_eq!(breaker.state(), Closed);
}

#[test]
fn an_earlier_probe_does_not_speak_for_a_later_one() {
    let (mut breaker, now, _) = opened();
    let first = breaker.admit(Caller::User, now + OPEN_FOR).unwrap();
    breaker.dropped(&first, now + OPEN_FOR);
    let _second = breaker.admit(Caller::User, now + OPEN_FOR).unwrap();
    breaker.answered(&first);
    assert_eq!(breaker.state(), HalfOpen);
}

#[test]
fn zero_failures_are_taken_for_one() {
    let mut breaker = Breaker::new(0, OPEN_FOR..=OPEN_FOR);
    let now = Instant::now();
    let ticket = breaker.admit(Caller::User, now).unwrap();
    assert_eq!(breaker.state(), Closed);
    breaker.failed(&ticket, now, false, cause);
    assert_eq!(breaker.state(), Open);
}

/// Two who waited are as good as many who were refused.
#[test]
fn who_waited_in_vain_counts_more() {
    let (mut breaker, start) = breaker();
    let [one, other] = [(); 2].map(|()| breaker.admit(Caller::User, start).unwrap());
    let late = start + OPEN_FOR;
    breaker.failed(&one, late, false, cause);
    assert_eq!(breaker.state(), Closed);
    breaker.failed(&other, late, false, cause);
    assert_eq!(breaker.state(), Open);
}

#[test]
fn an_answer_makes_up_for_who_waited() {
    let (mut breaker, start) = breaker();
    let [one, quick, other] = [(); 3].map(|()| breaker.admit(Caller::User, start).unwrap());
    let late = start + OPEN_FOR;
    breaker.failed(&one, late, false, cause);
    breaker.answered(&quick);
    breaker.failed(&other, late, false, cause);
    assert_eq!(breaker.state(), Closed);
}

#[test]
fn if_the_store_is_suspected_one_who_waited_is_enough() {
    let (mut breaker, start) = breaker();
    let [at_once, late] = [(); 2].map(|()| breaker.admit(Caller::User, start).unwrap());
    breaker.failed(&at_once, start, true, cause);
    assert_eq!(breaker.state(), Closed);
    breaker.failed(&late, start + OPEN_FOR, true, cause);
    assert_eq!(breaker.state(), Open);
}

#[test]
fn what_a_watcher_sees_of_the_whole_counts_here_too() {
    let (mut breaker, start) = breaker();
    breaker.watched(true, start);
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, start).unwrap();
        breaker.failed(&ticket, start, false, cause);
    }
    let later = start + OPEN_FOR / 2;
    breaker.watched(false, later);
    assert!(breaker.admit(Caller::User, start + OPEN_FOR).is_err());
    breaker.watched(true, later);
    let probe = breaker.admit(Caller::User, later).unwrap();
    assert_eq!(breaker.state(), HalfOpen);
    // That is no second probe.
    breaker.watched(true, later);
    assert!(breaker.admit(Caller::User, later).is_err());
    breaker.answered(&probe);
    assert_eq!(breaker.state(), Closed);
}

/// The story: looks that found another part away put the probe off for as long as that was away.
#[test]
fn a_user_is_the_probe_in_the_end_whatever_watchers_see() {
    let (mut breaker, start) = breaker();
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, start).unwrap();
        breaker.failed(&ticket, start, false, cause);
    }
    let mut now = start;
    while now + OPEN_FOR / 2 < start + OPEN_FOR_MAX {
        now += OPEN_FOR / 2;
        breaker.watched(false, now);
        assert!(breaker.admit(Caller::User, now).is_err());
    }
    assert!(breaker.admit(Caller::User, start + OPEN_FOR_MAX).is_ok());
}

/// Nobody waits for a watcher, and nobody should have to be the probe in its stead.
#[test]
fn a_watcher_probes_as_often_as_at_first() {
    let (mut breaker, start) = breaker();
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, start).unwrap();
        breaker.failed(&ticket, start, false, cause);
    }
    for number in 1..10 {
        let now = start + number * OPEN_FOR;
        if number > 1 {
            assert!(breaker.admit(Caller::User, now).is_err());
        }
        let probe = breaker.admit(Caller::Watcher, now).unwrap();
        breaker.failed(&probe, now, false, cause);
        assert!(breaker.admit(Caller::Watcher, now).is_err());
    }
}
