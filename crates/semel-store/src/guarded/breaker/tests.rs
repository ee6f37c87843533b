use super::*;

const OPEN_FOR: Duration = Duration::from_secs(10);
const OPEN_FOR_MAX: Duration = OPEN_FOR.saturating_mul(4);

/// What happens at the breaker, in order, each at a second.
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

fn run(events: &[(u64, Event, BreakerState)]) {
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
    run(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
        (0, Refused, Open),
        (9, Refused, Open),
    ]);
}

#[test]
fn an_answer_between_failures_resets_the_count() {
    run(&[
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Answered, Closed),
        (0, Failed, Closed),
        (0, Failed, Closed),
        (0, Failed, Open),
    ]);
}

#[test]
fn dropped_calls_do_not_count() {
    run(&[(0, Failed, Closed), (0, Failed, Closed), (0, Dropped, Closed), (0, Failed, Open)]);
}

#[test]
fn a_probe_that_is_answered_closes_it() {
    run(&[
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
    run(&[
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
    run(&[
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
fn the_result_of_an_earlier_probe_does_not_count() {
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

/// Two slow failures count as much as many immediate ones.
#[test]
fn slow_failures_count_more() {
    let (mut breaker, start) = breaker();
    let [one, other] = [(); 2].map(|()| breaker.admit(Caller::User, start).unwrap());
    let late = start + OPEN_FOR;
    breaker.failed(&one, late, false, cause);
    assert_eq!(breaker.state(), Closed);
    breaker.failed(&other, late, false, cause);
    assert_eq!(breaker.state(), Open);
}

#[test]
fn an_answer_resets_the_count_of_slow_failures() {
    let (mut breaker, start) = breaker();
    let [one, quick, other] = [(); 3].map(|()| breaker.admit(Caller::User, start).unwrap());
    let late = start + OPEN_FOR;
    breaker.failed(&one, late, false, cause);
    breaker.answered(&quick);
    breaker.failed(&other, late, false, cause);
    assert_eq!(breaker.state(), Closed);
}

#[test]
fn one_slow_failure_is_enough_if_the_store_is_suspected() {
    let (mut breaker, start) = breaker();
    let [at_once, late] = [(); 2].map(|()| breaker.admit(Caller::User, start).unwrap());
    breaker.failed(&at_once, start, true, cause);
    assert_eq!(breaker.state(), Closed);
    breaker.failed(&late, start + OPEN_FOR, true, cause);
    assert_eq!(breaker.state(), Open);
}

#[test]
fn a_health_check_of_the_whole_store_moves_the_next_probe() {
    let (mut breaker, start) = breaker();
    breaker.health_checked(true, start);
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, start).unwrap();
        breaker.failed(&ticket, start, false, cause);
    }
    let later = start + OPEN_FOR / 2;
    breaker.health_checked(false, later);
    assert!(breaker.admit(Caller::User, start + OPEN_FOR).is_err());
    breaker.health_checked(true, later);
    let probe = breaker.admit(Caller::User, later).unwrap();
    assert_eq!(breaker.state(), HalfOpen);
    // There is no second probe.
    breaker.health_checked(true, later);
    assert!(breaker.admit(Caller::User, later).is_err());
    breaker.answered(&probe);
    assert_eq!(breaker.state(), Closed);
}

/// The story: health checks that failed for another shard postponed the probe for as long as that was down.
#[test]
fn failed_health_checks_do_not_postpone_the_probe_forever() {
    let (mut breaker, start) = breaker();
    for _ in 0..3 {
        let ticket = breaker.admit(Caller::User, start).unwrap();
        breaker.failed(&ticket, start, false, cause);
    }
    let mut now = start;
    while now + OPEN_FOR / 2 < start + OPEN_FOR_MAX {
        now += OPEN_FOR / 2;
        breaker.health_checked(false, now);
        assert!(breaker.admit(Caller::User, now).is_err());
    }
    assert!(breaker.admit(Caller::User, start + OPEN_FOR_MAX).is_ok());
}

/// Users probe with back-off, health checks without.
#[test]
fn health_checks_keep_the_initial_interval() {
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
        let probe = breaker.admit(Caller::HealthCheck, now).unwrap();
        breaker.failed(&probe, now, false, cause);
        assert!(breaker.admit(Caller::HealthCheck, now).is_err());
    }
}
