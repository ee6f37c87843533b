//! Answers to clients.

use super::story::Story;
use crate::checker::Rule;
use crate::history::{Effect, Purpose, Route, Tier};

/// Executed once, and answered.
fn settled() -> Story {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story
}

#[test]
fn answers_must_be_the_same_bytes() {
    let mut same = settled();
    same.call(10, 2, 1).ok(11, 2, "n1").breaks(&[]);
    let mut other = settled();
    other.call(10, 2, 1).ok_with(11, 2, "n1", |answer| answer.digest = "other".to_owned());
    other.breaks(&[Rule::OneAnswer]);
}

#[test]
fn an_answer_must_equal_the_upstreams_reply() {
    let mut kept = Story::new();
    kept.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 402);
    kept.ok_with(3, 1, "n1", |answer| answer.status = 402).breaks(&[]);
    let mut altered = Story::new();
    altered.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 402).ok(3, 1, "n1");
    altered.breaks(&[Rule::OneAnswer]);
}

#[test]
fn every_answer_has_the_bytes_that_the_upstream_said() {
    let other = || Some("201 and other bytes".to_owned());
    let mut first = Story::new();
    first.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201);
    first.ok_with(3, 1, "n1", |answer| answer.said = other()).breaks(&[Rule::OneAnswer]);
    let mut replayed = settled();
    replayed.call(10, 2, 1).ok_with(11, 2, "n1", |answered| {
        (answered.replayed, answered.said) = (true, other());
    });
    replayed.breaks(&[Rule::OneAnswer]);
    let mut unrecorded = Story::new();
    unrecorded.call(0, 1, 0).begin(1, "n1", 0, 1).fault(1, 500, "store-kill", &[]);
    unrecorded.end(2, "n1", 201).ok_with(400, 1, "n1", |answered| {
        (answered.stored, answered.said) = ("no", other());
    });
    unrecorded.breaks(&[Rule::OneAnswer]);
    // No loss of a record changes bytes.
    let mut lost = Story::of_tier(Tier::Weak);
    lost.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).fault(2, 9, "promoted", &[]);
    lost.ok_with(3, 1, "n1", |answer| answer.said = other()).breaks(&[Rule::OneAnswer]);
}

#[test]
fn an_answer_must_come_from_an_execution_of_its_key() {
    let mut invented = settled();
    invented.call(10, 2, 1).ok(11, 2, "n7").breaks(&[Rule::NoSuchExecution]);
    let mut of_another = settled();
    of_another.with_key("other").call(10, 2, 1).ok(11, 2, "n1");
    of_another.breaks(&[Rule::NoSuchExecution]);
}

#[test]
fn an_answer_to_another_scope_shows_its_canary() {
    let mut story = settled();
    story.call(10, 2, 1).ok_with(11, 2, "n1", |answer| answer.scope = Some(3));
    story.breaks(&[Rule::ScopeCanary]);
    let mut unreadable = settled();
    unreadable.call(10, 2, 1).ok_with(11, 2, "n1", |answer| answer.scope = None);
    unreadable.breaks(&[Rule::ScopeCanary]);
}

#[test]
fn cookies_are_for_the_first_answer_only() {
    let mut first = Story::new();
    first.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201);
    first.ok_with(3, 1, "n1", |answer| answer.cookies = true).breaks(&[]);
    let mut replayed = settled();
    replayed.call(10, 2, 1).ok_with(11, 2, "n1", |answered| {
        answered.replayed = true;
        answered.cookies = true;
    });
    replayed.breaks(&[Rule::Cookies]);
}

#[test]
fn a_body_must_not_be_read_as_a_request() {
    let mut probed = settled();
    probed.invoke(10, 2, 0, Purpose::Probe).fail(11, 2, 400, "idempotency_key_missing");
    probed.call(12, 3, 0).ok(13, 3, "n1").breaks(&[]);
    let mut smuggled = settled();
    smuggled.invoke(10, 2, 0, Purpose::Probe).fail(11, 2, 400, "idempotency_key_missing");
    smuggled.with_key("smuggled-2").begin(12, "n2", 0, 1).end(13, "n2", 201);
    smuggled.breaks(&[Rule::DrainedBody]);
    let mut mixed_up = settled();
    mixed_up.call(10, 2, 0).ok_with(11, 2, "n1", |answer| answer.key = "other".to_owned());
    mixed_up.breaks(&[Rule::DrainedBody]);
}

#[test]
fn a_connection_that_is_left_open_can_be_used() {
    let next = |why: &str, fault: Option<&str>| {
        let mut story = settled();
        if let Some(kind) = fault {
            story.fault(9, 9, kind, &[0]);
        }
        story.invoke(10, 2, 0, Purpose::AfterProbe).info(11, 2, why);
        story
    };
    next("unexpected end of file", None).breaks(&[Rule::DrainedBody]);
    next("unexpected end of file", Some("gateway-kill")).breaks(&[]);
    next("timeout 400", None).breaks(&[]);
}

#[test]
fn another_body_must_be_refused_in_every_state() {
    let mut refused = settled();
    refused.invoke(10, 2, 1, Purpose::Mismatch).fail(11, 2, 422, "idempotency_payload_mismatch");
    refused.fault(11, 14, "store-pause", &[]);
    refused.invoke(12, 3, 1, Purpose::Mismatch).fail(13, 3, 503, "idempotency_store_unavailable");
    refused.breaks(&[]);
    for code in ["request_in_progress", "outcome_unknown"] {
        let mut answered = settled();
        answered.invoke(10, 2, 1, Purpose::Mismatch).fail(11, 2, 409, code);
        answered.breaks(&[Rule::MismatchInert]);
    }
    let mut replayed = settled();
    replayed.invoke(10, 2, 1, Purpose::Mismatch).ok(11, 2, "n1").breaks(&[Rule::MismatchInert]);
    let mut executed = settled();
    executed.invoke(10, 2, 1, Purpose::Mismatch).info(11, 2, "hung-up");
    executed.on(Route::Reexecute).begin_with(12, "n2", 1, Some(1), 1).end(13, "n2", 201);
    executed.breaks(&[Rule::MismatchInert]);
}

#[test]
fn the_right_body_must_not_be_refused() {
    let mut story = settled();
    story.call(10, 2, 1).fail(11, 2, 422, "idempotency_payload_mismatch");
    story.breaks(&[Rule::MismatchInert]);
}

#[test]
fn a_settled_record_is_neither_in_progress_nor_unknown() {
    for code in ["request_in_progress", "outcome_unknown"] {
        let mut story = settled();
        story.call(10, 2, 1).fail(11, 2, 409, code).breaks(&[Rule::SettledIsFinal]);
        // Sent before the outcome was answered.
        let mut early = Story::new();
        early.call(0, 2, 1).call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201);
        early.ok(3, 1, "n1").fail(4, 2, 409, code).breaks(&[]);
    }
}

#[test]
fn only_hold_says_that_an_outcome_is_unknown() {
    let mut story = Story::new();
    story.on(Route::Reexecute).call(0, 1, 0).fail(1, 1, 409, "outcome_unknown");
    story.breaks(&[Rule::Bounded]);
}

#[test]
fn an_answer_outside_the_contract_is_not_bounded() {
    for (status, code) in [(500, "none"), (409, "none"), (503, "none"), (200, "none")] {
        let mut story = Story::new();
        story.call(0, 1, 0).fail(1, 1, status, code).breaks(&[Rule::Bounded]);
    }
}

#[test]
fn a_refusal_for_something_that_broke_has_a_cause() {
    let refused = |code: &str, fault: Option<(&str, usize)>| {
        let mut story = Story::new();
        if let Some((kind, on)) = fault {
            story.fault(0, 1_000, kind, &[on]);
        }
        story.call(1_800, 1, 0).fail(1_801, 1, 503, code);
        story
    };
    for code in ["shutting_down", "too_busy", "upstream_timeout", "idempotency_store_unavailable"] {
        refused(code, None).breaks(&[Rule::CauselessRefusal]);
        refused(code, Some(("gateway-term", 0))).breaks(&[]);
        refused(code, Some(("gateway-term", 1))).breaks(&[Rule::CauselessRefusal]);
    }
    let store = "idempotency_store_unavailable";
    refused(store, Some(("back-cut", 0))).breaks(&[]);
    refused(store, Some(("front-cut", 0))).breaks(&[Rule::CauselessRefusal]);
    let mut near = Story::new();
    near.near_fault(0, 1_000, "back-cut", 0).call(500, 1, 0).fail(501, 1, 503, store);
    near.breaks(&[Rule::CauselessRefusal]);
    // The circuit breaker has probed the store again by then.
    let mut late = Story::new();
    late.fault(0, 1_000, "back-cut", &[0]).call(5_500, 1, 0).fail(5_501, 1, 503, store);
    late.breaks(&[Rule::CauselessRefusal]);
}

#[test]
fn a_refusal_for_the_store_has_retry_after() {
    let code = "idempotency_store_unavailable";
    let mut story = Story::new();
    story.fault(0, 100, "store-kill", &[]).call(10, 1, 0).fail_for_good(11, 1, 503, code);
    story.breaks(&[Rule::Bounded]);
}

#[test]
fn an_answer_comes_in_time_but_for_the_time_of_faults() {
    let mut hung = Story::new();
    hung.call(0, 1, 0).info(12_000, 1, "timeout 12000").breaks(&[Rule::Bounded]);
    Story::new().call(0, 1, 0).info(700, 1, "timeout 700").breaks(&[]);
    let cut_off = |until: u64, gateway: usize| {
        let mut story = Story::new();
        story.call(0, 1, 0).fault(500, until, "front-black-hole", &[gateway]);
        story.info(12_000, 1, "timeout 12000");
        story
    };
    cut_off(9_000, 0).breaks(&[]);
    cut_off(9_000, 1).breaks(&[Rule::Bounded]);
    // It was over so soon that there was time enough for an answer.
    cut_off(1_000, 0).breaks(&[Rule::Bounded]);
}

#[test]
fn an_outcome_is_unrecorded_only_during_a_store_outage() {
    let unrecorded = |fault: Option<&str>, stored: &'static str| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1);
        if let Some(kind) = fault {
            story.fault(1, 500, kind, &[]);
        }
        story.end(2, "n1", 201).ok_with(400, 1, "n1", |answer| answer.stored = stored);
        story
    };
    unrecorded(Some("store-kill"), "no").breaks(&[]);
    unrecorded(Some("back-cut"), "no").breaks(&[]);
    unrecorded(None, "no").breaks(&[Rule::SettleFirst]);
    unrecorded(Some("front-cut"), "no").breaks(&[Rule::SettleFirst]);
    unrecorded(Some("store-kill"), "gone").breaks(&[Rule::AnswerLost]);
}

#[test]
fn only_one_answer_is_not_a_replay() {
    let mut story = settled();
    story.call(10, 2, 1).ok_with(11, 2, "n1", |answer| answer.replayed = false);
    story.breaks(&[Rule::OneAnswer]);
}

#[test]
fn an_upstream_that_is_there_is_unreachable_only_if_it_closed_the_connection() {
    let answered = |status: u16, gateway: usize| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, gateway).begin(1, "n1", 0, 1).end(2, "n1", status);
        story.fail(3, 1, 502, "upstream_unreachable");
        story
    };
    answered(0, 0).breaks(&[]);
    answered(201, 0).breaks(&[Rule::CauselessRefusal]);
    answered(0, 1).breaks(&[Rule::CauselessRefusal]);
    answered(201, 0).fault(1, 3, "stall", &[]).breaks(&[]);
}

#[test]
fn faults_of_clients_and_stores_excuse_no_upstream_error() {
    for code in ["upstream_unreachable", "upstream_timeout"] {
        for (kind, is_excused) in [
            ("gateway-pause", true),
            ("stall", true),
            ("front-cut", false),
            ("back-cut", false),
            ("clock-forward", false),
        ] {
            let mut story = Story::new();
            story.call(0, 1, 0).fault(1, 2, kind, &[0]).fail(3, 1, 502, code);
            story.breaks(if is_excused { &[] } else { &[Rule::CauselessRefusal] });
        }
    }
}

/// Executed, and handed back by the upstream.
fn handed_back() -> Story {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 503);
    story
}

#[test]
fn a_released_reply_goes_only_to_its_requester() {
    handed_back().gave_back(3, 1, "n1").breaks(&[]);
    let changed = |rule: Rule, change: fn(&mut Effect)| {
        handed_back().gave_back_with(3, 1, "n1", change).breaks(&[rule]);
    };
    changed(Rule::ScopeCanary, |effect| effect.scope = Some(3));
    changed(Rule::DrainedBody, |effect| effect.key = "other".to_owned());
    changed(Rule::NoSuchExecution, |effect| effect.nonce = "n7".to_owned());
    changed(Rule::OneAnswer, |effect| effect.said = "other bytes".to_owned());
    changed(Rule::OneAnswer, |effect| effect.replayed = true);
    let mut twice = handed_back();
    twice.call(0, 2, 0).gave_back(3, 1, "n1").gave_back(4, 2, "n1").breaks(&[Rule::OneAnswer]);
    let mut elsewhere = handed_back();
    elsewhere.call(0, 2, 1).gave_back(3, 2, "n1").breaks(&[Rule::OneAnswer]);
    let mut later = handed_back();
    later.call(9, 2, 0).gave_back(10, 2, "n1").breaks(&[Rule::OneAnswer]);
}

/// A detected fault without an effect explains nothing.
#[test]
fn a_fault_without_effect_excuses_nothing_and_does_not_count() {
    let refused = |struck: u64| {
        let mut story = Story::new();
        story.fault_that_struck(0, 1_000, "back-cut", struck);
        story.call(500, 1, 0).fail(501, 1, 503, "idempotency_store_unavailable");
        story
    };
    refused(1).breaks(&[]);
    refused(0).breaks(&[Rule::CauselessRefusal]);
    assert_eq!(refused(1).report().faults, [("back-cut".to_owned(), 1)].into());
    assert_eq!(refused(0).report().faults, [("back-cut IDLE".to_owned(), 1)].into());
    let counted = |struck| refused(struck).report().to_json()["faults"].clone();
    assert_eq!((counted(0), counted(1)), (0.into(), 1.into()));
}

#[test]
fn executions_are_interrupted_only_by_the_end_of_their_gateway() {
    let answered = |kind: &str| {
        let mut story = Story::new();
        story.call(0, 1, 0).fault(1, 2, kind, &[0]).fail(3, 1, 503, "execution_interrupted");
        story
    };
    answered("gateway-term").breaks(&[]);
    answered("front-latency").breaks(&[Rule::CauselessRefusal]);
}

/// A gateway's cache may have what a promotion removed, and be the first to answer it.
#[test]
fn a_loss_may_precede_the_first_answer() {
    let answered = |promoted: u64| {
        let mut story = Story::of_tier(Tier::Weak);
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).info(3, 1, "hung-up");
        story.fault(promoted, promoted + 100, "promoted", &[]);
        story.call(9_000, 2, 0).ok_with(9_001, 2, "n1", |answer| answer.replayed = true);
        story.call(9_100, 3, 1).fail(9_101, 3, 409, "request_in_progress");
        let report = story.report();
        (report.violations.len(), report.losses.len())
    };
    assert_eq!(answered(2_000), (0, 1));
    assert_eq!(answered(20_000), (1, 0));
}

/// The story: a promotion is seen a little later than what it led to, and the rule had been judged by then.
#[test]
fn a_loss_may_show_before_the_promotion_is_noticed() {
    let mut story = Story::of_tier(Tier::Weak);
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.call(1_000, 2, 1).fail(1_001, 2, 409, "request_in_progress");
    story.fault(1_300, 2_000, "promoted", &[]);
    let report = story.report();
    assert_eq!((report.violations.len(), report.losses.len()), (0, 1), "{report}");
}

/// The story: a gateway on a slow path to its store had settled, and another answered the outcome before the first
/// had its confirmation. It tracks its own executions and settlements without the store.
#[test]
fn an_executing_process_may_not_know_yet_that_it_has_settled() {
    let answered = |gateway: usize, code: &str, fault: (u64, u64, &str)| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1).fault(fault.0, fault.1, fault.2, &[0]);
        story.end(20, "n1", 201).info(160, 1, "timeout 160").call(1_000, 2, 1);
        story.ok_with(1_001, 2, "n1", |answer| answer.replayed = true);
        story.call(2_000, 3, gateway).fail(2_001, 3, 409, code);
        story
    };
    let (slow, progress) = ((5, 1_900, "back-slow"), "request_in_progress");
    answered(0, progress, slow).breaks(&[]);
    // Another gateway depends on the store, and no gateway forgets its own execution.
    answered(1, progress, slow).breaks(&[Rule::SettledIsFinal]);
    answered(0, "outcome_unknown", slow).breaks(&[Rule::SettledIsFinal]);
    // Its store was there, or is there again for long enough; or it is another process.
    answered(0, progress, (5, 1_900, "front-slow")).breaks(&[Rule::SettledIsFinal]);
    let mut late = answered(0, "request_in_progress", slow);
    late.call(6_000, 4, 0).fail(6_001, 4, 409, progress).breaks(&[Rule::SettledIsFinal]);
    let mut killed = Story::new();
    killed.call(0, 1, 0).begin(10, "n1", 0, 1).fault(5, 1_900, "back-slow", &[0]);
    killed.end(20, "n1", 201).info(160, 1, "timeout 160").call(1_000, 2, 1);
    killed.ok_with(1_001, 2, "n1", |answer| answer.replayed = true);
    killed.fault(1_100, 1_200, "gateway-kill", &[0]).call(2_000, 3, 0);
    killed.fail(2_001, 3, 409, progress).breaks(&[Rule::SettledIsFinal]);
}
