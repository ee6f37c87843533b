//! What counts as a trial of a rule.

use super::story::Story;
use crate::checker::Rule;
use crate::history::{Purpose, Route, Tier};

/// Of one rule, in a history.
fn trials(story: &Story, rule: Rule) -> u64 {
    story.report().trials.get(&rule).copied().unwrap_or_default()
}

/// Executed and answered, replayed once, refused to another body.
fn usual(tier: Tier) -> Story {
    let mut story = Story::of_tier(tier);
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.call(10, 2, 1).ok_with(11, 2, "n1", |answer| answer.replayed = true);
    story.invoke(20, 3, 1, Purpose::Mismatch).fail(21, 3, 422, "idempotency_payload_mismatch");
    story
}

#[test]
fn a_case_without_faults_is_a_trial() {
    let story = usual(Tier::Strong);
    for (rule, count) in [
        (Rule::OneAnswer, 2),
        (Rule::Cookies, 1),
        (Rule::SettledIsFinal, 1),
        (Rule::MismatchInert, 1),
        (Rule::OneLease, 0),
        (Rule::Detached, 0),
        (Rule::FenceWentBack, 0),
        (Rule::HoldExecutedAgain, 1),
        (Rule::UnexplainedExecution, 0),
        (Rule::Bounded, 3),
        (Rule::CauselessRefusal, 3),
        (Rule::Fenced, 0),
        (Rule::Liveness, 0),
    ] {
        assert_eq!(trials(&story, rule), count, "{rule}");
    }
    let shown = story.report().to_string();
    assert!(shown.contains("tried without an excuse: I1 one-lease 0, I10 bounded 3, "), "{shown}");
}

#[test]
fn an_excusable_case_is_no_trial() {
    let mut story = usual(Tier::Strong);
    story.fault(1, 900, "back-cut", &[0]);
    for (rule, count) in [
        (Rule::OneLease, 0),
        (Rule::Detached, 0),
        (Rule::SettleFirst, 0),
        // On the other gateway.
        (Rule::Bounded, 2),
        // No fault excuses these.
        (Rule::OneAnswer, 2),
        (Rule::HoldExecutedAgain, 1),
    ] {
        assert_eq!(trials(&story, rule), count, "{rule}");
    }
}

#[test]
fn a_request_without_an_answer_is_no_trial() {
    let mut story = usual(Tier::Strong);
    let rules = [Rule::Bounded, Rule::SettledIsFinal, Rule::CauselessRefusal, Rule::DrainedBody];
    let count = |story: &Story| rules.map(|rule| trials(story, rule));
    assert_eq!(count(&story), [3, 1, 3, 0]);
    story.call(30, 4, 0).info(190, 4, "timeout 160").call(30, 5, 0).info(40, 5, "broken pipe");
    story.invoke(30, 6, 0, Purpose::AfterProbe).info(430, 6, "timeout 400");
    assert_eq!(count(&story), [3, 1, 3, 0]);
    // Long enough to notice that nothing comes.
    story.call(500, 7, 0).info(12_500, 7, "timeout 12000");
    story.invoke(500, 8, 0, Purpose::AfterProbe).ok(501, 8, "n1");
    assert_eq!(count(&story), [5, 2, 4, 1]);
}

#[test]
fn an_answer_that_does_not_tell_of_the_record_tries_nothing_about_it() {
    let answered = |purpose: Purpose, status: u16, code: &str| {
        let mut story = usual(Tier::Strong);
        let before = [Rule::SettledIsFinal, Rule::MismatchInert].map(|rule| trials(&story, rule));
        assert_eq!(before, [1, 1]);
        story.invoke(30, 4, 0, purpose).fail(31, 4, status, code);
        (trials(&story, Rule::SettledIsFinal) - 1, trials(&story, Rule::MismatchInert) - 1)
    };
    for (status, code, call, mismatch) in [
        (409, "request_in_progress", (1, 0), (0, 1)),
        (409, "outcome_unknown", (1, 0), (0, 1)),
        (503, "upstream", (1, 0), (0, 1)),
        (422, "idempotency_payload_mismatch", (0, 0), (0, 1)),
        (400, "idempotency_key_missing", (0, 0), (0, 0)),
        (503, "idempotency_store_unavailable", (0, 0), (0, 0)),
        (503, "too_busy", (0, 0), (0, 0)),
    ] {
        assert_eq!(answered(Purpose::Call, status, code), call, "{code}");
        assert_eq!(answered(Purpose::Mismatch, status, code), mismatch, "{code}");
    }
    // Every client may get an outcome.
    let mut replayed = usual(Tier::Strong);
    replayed.invoke(30, 4, 0, Purpose::Mismatch).ok(31, 4, "n1").call(32, 5, 0).ok(33, 5, "n1");
    let counts = [Rule::SettledIsFinal, Rule::MismatchInert].map(|rule| trials(&replayed, rule));
    assert_eq!(counts, [2, 2]);
}

#[test]
fn a_refusal_is_tried_if_nothing_excuses_its_own_code() {
    let answered = |code: Option<&str>, fault: &str| {
        let mut story = Story::new();
        story.on(Route::Reexecute).fault(0, 1_000, fault, &[0]);
        story.call(900, 1, 0).begin(901, "n1", 0, 1);
        match code {
            Some(code) => story.end(902, "n1", 0).fail(903, 1, 503, code),
            None => story.end(902, "n1", 201).ok(903, 1, "n1"),
        };
        trials(&story, Rule::CauselessRefusal)
    };
    for (code, fault, count) in [
        ("too_busy", "front-cut", 0),
        ("too_busy", "back-cut", 0),
        ("idempotency_store_unavailable", "back-cut", 0),
        ("idempotency_store_unavailable", "front-cut", 1),
        ("upstream_timeout", "back-cut", 1),
        ("upstream_timeout", "gateway-pause", 0),
        ("execution_interrupted", "gateway-pause", 1),
        ("execution_interrupted", "gateway-term", 0),
        // The upstream closed the connection.
        ("upstream_unreachable", "back-cut", 0),
    ] {
        assert_eq!(answered(Some(code), fault), count, "{code} and {fault}");
    }
    // What is no refusal could have been any.
    let counts = ["front-cut", "back-cut", "gateway-term"].map(|fault| answered(None, fault));
    assert_eq!(counts, [0, 0, 0]);
}

#[test]
fn one_lease_is_tried_by_a_concurrent_in_progress_answer() {
    let asked = |at: u64| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1);
        story.call(at, 2, 1).fail(at + 1, 2, 409, "request_in_progress");
        story.end(20, "n1", 201).ok(21, 1, "n1");
        trials(&story, Rule::OneLease)
    };
    assert_eq!((asked(5), asked(15), asked(19)), (0, 1, 1));
    // A request with another refusal was no rival.
    let mut other = Story::new();
    other.call(0, 1, 0).begin(10, "n1", 0, 1);
    other.invoke(15, 2, 1, Purpose::Mismatch).fail(16, 2, 422, "idempotency_payload_mismatch");
    other.invoke(15, 3, 1, Purpose::Probe).fail(16, 3, 400, "idempotency_key_missing");
    other.end(20, "n1", 201).ok(21, 1, "n1");
    assert_eq!(trials(&other, Rule::OneLease), 0);
}

#[test]
fn an_execution_is_detached_if_its_client_left() {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).info(2, 1, "hung-up").end(5, "n1", 201);
    assert_eq!(trials(&story, Rule::Detached), 1);
    let mut later = Story::new();
    later.call(0, 1, 0).begin(1, "n1", 0, 1).end(5, "n1", 201).info(9, 1, "hung-up");
    assert_eq!(trials(&later, Rule::Detached), 0);
}

#[test]
fn detached_is_not_tried_by_an_unrelated_client() {
    // One client leaves, and another one's request executes.
    let left = |purpose: Purpose, next: u64| {
        let mut story = Story::new();
        story.invoke(0, 1, 0, purpose).info(2, 1, "hung-up");
        story.call(next, 2, 0).begin(next + 1, "n1", 0, 1).end(next + 5, "n1", 201);
        story.ok(next + 6, 2, "n1");
        trials(&story, Rule::Detached)
    };
    for (purpose, count) in [
        (Purpose::HangUpInReply, 1),
        (Purpose::AfterProbe, 1),
        (Purpose::HangUpInRequest, 0),
        (Purpose::Probe, 0),
        (Purpose::Mismatch, 0),
    ] {
        assert_eq!(left(purpose, 10), count, "{purpose:?}");
    }
    // Its request came a little later than it left, or cannot have come so late.
    let counts = [900, 1_100].map(|next| left(Purpose::HangUpInReply, next));
    assert_eq!(counts, [1, 0]);
}

#[test]
fn fences_are_tried_where_a_lease_was_not_handed_back_and_its_holder_lives() {
    let again = |status: u16, fault: &str, on: usize| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, 0).begin(1, "n1", 0, 1);
        story.fault(2, 2_500, fault, &[on]).info(3, 1, "broken").end(4, "n1", status);
        story.call(5_000, 2, 1).begin(5_001, "n2", 1, 2).end(5_002, "n2", 201).ok(5_003, 2, "n2");
        (trials(&story, Rule::Fenced), trials(&story, Rule::FenceWentBack))
    };
    assert_eq!(again(201, "gateway-pause", 0), (1, 1));
    assert_eq!(again(503, "gateway-pause", 0), (0, 1));
    // A dead process writes nothing.
    assert_eq!(again(201, "gateway-kill", 0), (0, 1));
    assert_eq!(again(201, "gateway-kill", 1), (1, 1));
}

#[test]
fn a_released_execution_does_not_try_executed_again() {
    let executed = |route: Route, status: u16| {
        let mut story = Story::new();
        story.on(route).call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", status);
        story.info(3, 1, "hung-up");
        (trials(&story, Rule::HoldExecutedAgain), trials(&story, Rule::UnexplainedExecution))
    };
    assert_eq!([201, 503, 0].map(|status| executed(Route::Hold, status)), [(1, 0), (0, 0), (1, 0)]);
    let reexecuted = [201, 503, 0].map(|status| executed(Route::Reexecute, status));
    assert_eq!(reexecuted, [(0, 1), (0, 0), (0, 0)]);
}

#[test]
fn answer_lost_is_tried_only_by_answers_before_the_last_reads() {
    let read = |is_answered: bool| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201);
        if is_answered {
            story.ok(3, 1, "n1")
        } else {
            story.info(3, 1, "hung-up")
        };
        story.read(10, 2, 0).ok(11, 2, "n1").read(12, 3, 1).ok(13, 3, "n1").over();
        trials(&story, Rule::AnswerLost)
    };
    assert_eq!((read(true), read(false)), (1, 0));
}

#[test]
fn settling_is_tried_where_something_kept_it_from_being_done_at_once() {
    let read = |fault: &str| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1).fault(2, 900, fault, &[0]).end(3, "n1", 201);
        story.info(4, 1, "broken").read(20_000, 2, 0).ok(20_001, 2, "n1");
        story.read(20_002, 3, 1).ok(20_003, 3, "n1").over();
        trials(&story, Rule::SettlingGivenUp)
    };
    assert_eq!((read("back-cut"), read("front-cut"), read("gateway-kill")), (1, 0, 0));
}

/// The story: only keys that were themselves found held were read late enough to count, so that no key counted on
/// most stores, though each would have been read again, had it been held.
#[test]
fn settling_is_tried_if_the_key_would_have_been_asked_for_again() {
    let asked = |later: u64, fault: &str| {
        let mut story = asked_again(Route::Hold, later);
        story.with_key("k").fault(0, 900, fault, &[0]);
        trials(&story, Rule::SettlingGivenUp)
    };
    assert_eq!((asked(9_500, "back-cut"), asked(9_500, "clock-forward")), (1, 0));
    // The store came back too late, or the gateway had ended.
    let at_the_end = |later: u64| {
        let mut story = asked_again(Route::Hold, later);
        story.with_key("k").fault(1, 20_000, "back-cut", &[0]);
        trials(&story, Rule::SettlingGivenUp)
    };
    assert_eq!((at_the_end(9_500), at_the_end(8_000)), (1, 0));
    let mut ended = asked_again(Route::Hold, 9_500);
    ended.fault(0, 900, "back-cut", &[0]).fault(2_000, 2_100, "gateway-term", &[0]);
    assert_eq!(trials(&ended, Rule::SettlingGivenUp), 0);
}

/// A key that is known, and another that was found held, and was asked for again so much later.
fn asked_again(route: Route, later: u64) -> Story {
    let mut story = Story::new();
    story.on(route).call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.read(20_000, 2, 0).ok(20_001, 2, "n1").read(20_002, 3, 1).ok(20_003, 3, "n1");
    story.on(Route::Hold).with_key("held").call(0, 4, 0).begin(1, "n2", 0, 1).end(2, "n2", 0);
    story.info(3, 4, "broken").read(20_000, 5, 0).fail(20_001, 5, 409, "outcome_unknown");
    story.read(20_002, 6, 1).fail(20_003, 6, 409, "outcome_unknown");
    story.read(20_000 + later, 7, 0).fail(20_001 + later, 7, 409, "outcome_unknown");
    story
}

#[test]
fn an_orphan_would_be_noticed_only_if_it_was_asked_for_again_in_time() {
    let tried = |mut story: Story| {
        story.over().breaks(&[]);
        trials(&story, Rule::HeldUnexecuted)
    };
    // Only the one that is known: that the other is held has a reason.
    assert_eq!(tried(asked_again(Route::Hold, 9_500)), 1);
    assert_eq!(tried(asked_again(Route::Reexecute, 9_500)), 0);
    // A holder that had less time breaks no rule.
    assert_eq!(tried(asked_again(Route::Hold, 6_900)), 0);
    assert_eq!(tried(asked_again(Route::Hold, 7_100)), 1);
    // Or one that was kept from its store, or may be dead.
    let disturbed = |from: u64, kind: &str| {
        let mut story = asked_again(Route::Hold, 9_500);
        story.fault(from, from + 400, kind, &[1]);
        tried(story)
    };
    assert_eq!((disturbed(24_000, "back-cut"), disturbed(10_000, "back-cut")), (0, 1));
    assert_eq!((disturbed(10_000, "gateway-kill"), disturbed(29_300, "gateway-kill")), (0, 1));
    // Without another request the violation would not have been visible.
    let mut known = Story::new();
    known.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    known.read(20_000, 2, 0).ok(20_001, 2, "n1").read(20_002, 3, 1).ok(20_003, 3, "n1");
    assert_eq!(tried(known), 0);
}

#[test]
fn a_case_that_a_lost_record_excuses_is_no_trial() {
    let mut story = usual(Tier::Weak);
    story.fault(1, 900, "promoted", &[]);
    assert_eq!(trials(&story, Rule::OneAnswer), 0);
    assert_eq!(trials(&story, Rule::ScopeCanary), 2);
}

#[test]
fn last_reads_are_counted_apart_from_requests_under_faults() {
    let mut story = Story::new();
    story.on(Route::Reexecute).phase(0, "faults").call(1, 1, 0).begin(2, "n1", 0, 1);
    story.end(3, "n1", 201).ok(4, 1, "n1").phase(5, "calm").call(6, 2, 0).ok(7, 2, "n1");
    story.phase(8, "reads").read(9, 3, 0).ok(10, 3, "n1").read(11, 4, 1).ok(12, 4, "n1").over();
    let report = story.report();
    assert_eq!((report.requests, report.requests_under_faults, report.last_reads), (4, 1, 2));
    assert_eq!(trials(&story, Rule::Liveness), 1);
    story.breaks(&[]);
}
