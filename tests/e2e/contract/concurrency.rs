//! Many at once: one executes. Trap 2, I1.

use std::collections::BTreeSet;

use crate::support::{Answer, Call, Reply, Setup, Upstream, at_once, eventually};

const MANY: usize = 50;

/// Sends `MANY` equal requests at once to an upstream that answers when `until` says so.
fn race(policy: &str, until: impl Fn(&crate::support::Gateway) -> bool + Sync) -> Vec<Answer> {
    let (gate, upstream) =
        Upstream::gated(|seen| Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)));
    let gateway = Setup::before(&upstream).policy(policy).start();
    let answers = at_once(MANY + 1, |number| {
        if number < MANY {
            return Some(Call::charge("k").send(&gateway));
        }
        gate.wait_for(1);
        eventually("the others are there", || until(&gateway).then_some(()));
        gate.open();
        None
    });
    assert_eq!(upstream.fences("k"), [1], "more than one executed");
    answers.into_iter().flatten().collect()
}

fn count(answers: &[Answer], status: u16) -> usize {
    answers.iter().filter(|answer| answer.status == status).count()
}

fn others_are_refused(gateway: &crate::support::Gateway) -> bool {
    gateway.metrics().attempts("in_flight") >= 49.0
}

#[test]
fn of_fifty_at_once_one_executes_and_the_others_conflict() {
    let answers = race("", others_are_refused);
    assert_eq!((count(&answers, 201), count(&answers, 409)), (1, 49));
    for answer in answers.iter().filter(|answer| answer.status == 409) {
        answer.assert_problem(409, "request_in_progress", true);
        assert!(answer.retry_after().is_some());
    }
}

#[test]
fn of_fifty_at_once_one_executes_and_the_others_are_accepted() {
    let answers = race("in_flight = \"accepted\"", others_are_refused);
    assert_eq!((count(&answers, 201), count(&answers, 202)), (1, 49));
}

#[test]
fn of_fifty_at_once_one_executes_and_all_get_its_answer() {
    let waiting = |gateway: &crate::support::Gateway| {
        gateway.metrics().find("semel_waiters", &[]) == Some(49.0)
    };
    let answers = race("in_flight = \"wait\"", waiting);
    assert_eq!(count(&answers, 201), MANY);
    let bodies: BTreeSet<_> = answers.iter().map(Answer::text).collect();
    assert_eq!(bodies.len(), 1, "{bodies:?}");
    assert_eq!(answers.iter().filter(|answer| answer.is_replay()).count(), 49);
}

/// Without a gate: the claims themselves race, again and again, with no time for one to be first.
#[test]
fn claims_that_race_have_one_winner_each() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).policy("in_flight = \"wait\"").start();
    for round in 0..20 {
        let key = format!("k-{round}");
        let answers = at_once(8, |_| Call::charge(&key).send(&gateway));
        assert_eq!(count(&answers, 201), 8);
        assert!(answers.iter().all(|answer| answer.body == answers[0].body));
        assert_eq!(upstream.fences(&key), [1]);
    }
}

/// Waiters of an execution that failed for now take turns, one at a time: the first that succeeds
/// answers all that are left.
#[test]
fn waiters_of_a_released_key_take_turns() {
    let (gate, upstream) = Upstream::gated(|seen| {
        if seen.execution == 1 { Reply::new(503, "later") } else { Reply::new(201, "done") }
    });
    let gateway = Setup::before(&upstream).policy("in_flight = \"wait\"").start();
    let answers = at_once(11, |number| {
        if number < 10 {
            return Some(Call::charge("k").send(&gateway));
        }
        gate.wait_for(1);
        eventually("the others wait", || {
            (gateway.metrics().find("semel_waiters", &[]) == Some(9.0)).then_some(())
        });
        gate.open();
        None
    });
    let answers: Vec<_> = answers.into_iter().flatten().collect();
    assert_eq!((count(&answers, 503), count(&answers, 201)), (1, 9));
    assert_eq!(upstream.fences("k"), [1, 2]);
}
