//! A store that is full keeps and replays outcomes.

use super::story::Story;
use crate::checker::Rule;
use crate::history::Route;

/// Executed on gateway 0 until 1,000, while the store is full from 500 until 4,000.
fn full() -> Story {
    let mut story = Story::new();
    story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).fault(
        500,
        4_000,
        "store-full",
        &[],
    );
    story.end(1_000, "n1", 201);
    story
}

fn trials(story: &Story) -> u64 {
    story.report().trials.get(&Rule::FullStore).copied().unwrap_or_default()
}

#[test]
fn an_outcome_is_recorded_though_the_store_is_full() {
    full().ok(1_010, 1, "n1").breaks(&[]);
    full().ok_with(1_900, 1, "n1", |answer| answer.stored = "no").breaks(&[Rule::FullStore]);
    // Something else was wrong, too.
    let mut cut = full();
    cut.fault(900, 1_500, "back-cut", &[0]);
    cut.ok_with(1_900, 1, "n1", |answer| answer.stored = "no").breaks(&[]);
}

#[test]
fn a_recorded_outcome_is_replayed_by_a_full_store() {
    let refused = |sent: u64| {
        let mut story = full();
        story.ok(1_010, 1, "n1").call(sent, 2, 1);
        story.fail(sent + 1, 2, 503, "idempotency_store_unavailable");
        story
    };
    refused(3_000).breaks(&[Rule::FullStore]);
    // When it is over nothing is left to refuse a replay for.
    refused(4_500).breaks(&[Rule::FullStore]);
    refused(9_000).breaks(&[Rule::CauselessRefusal]);
    refused(3_000).fault(2_000, 2_500, "store-kill", &[]).breaks(&[]);
}

#[test]
fn only_new_keys_are_refused() {
    let mut story = full();
    story.ok(1_010, 1, "n1").with_key("new").call(3_000, 2, 1);
    story.fail(3_001, 2, 503, "idempotency_store_unavailable").breaks(&[]);
    story.call(9_000, 3, 1).fail(9_001, 3, 503, "idempotency_store_unavailable");
    story.breaks(&[Rule::CauselessRefusal]);
}

#[test]
fn an_outcome_is_answered_after_its_own_client_has_left() {
    let asked = |sent: u64, code: &str| {
        let mut story = full();
        story.info(160, 1, "timeout 160").call(sent, 2, 1).fail(sent + 1, 2, 503, code);
        story
    };
    for code in ["idempotency_store_unavailable", "request_in_progress"] {
        asked(2_000, code).breaks(&[Rule::FullStore]);
        // It may take a moment.
        asked(1_300, code).breaks(&[]);
    }
    asked(2_000, "request_in_progress").fault(900, 1_100, "back-cut", &[0]).breaks(&[]);
    let mut answered = full();
    answered.info(160, 1, "timeout 160").call(2_000, 2, 1);
    answered.ok_with(2_001, 2, "n1", |answer| answer.replayed = true);
    answered.breaks(&[]);
    assert_eq!((trials(&answered), trials(&asked(2_000, "request_in_progress"))), (1, 1));
    assert_eq!(trials(&asked(1_300, "request_in_progress")), 0);
}

#[test]
fn a_case_that_needs_a_full_store_is_a_trial() {
    assert_eq!(trials(full().ok(1_010, 1, "n1")), 1);
    assert_eq!(trials(full().ok_with(1_900, 1, "n1", |answer| answer.stored = "no")), 1);
    assert_eq!(trials(full().fault(900, 1_500, "back-cut", &[0]).ok(1_010, 1, "n1")), 0);
    // Answered by the executing gateway, or answered before: it may come from its cache.
    let replayed = |gateways: &[usize]| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1).end(20, "n1", 201).ok(21, 1, "n1");
        story.fault(500, 4_000, "store-full", &[]);
        for (op, gateway) in (2..).zip(gateways) {
            story.call(1_000 * op, op, *gateway).ok(1_000 * op + 1, op, "n1");
        }
        trials(&story)
    };
    assert_eq!((replayed(&[0]), replayed(&[1]), replayed(&[1, 1])), (0, 1, 1));
}

#[test]
fn a_full_store_costs_no_lease() {
    let mut story = full();
    story.info(160, 1, "timeout 160").call(2_500, 2, 1).begin(2_501, "n2", 1, 2);
    story.end(2_502, "n2", 201).ok(2_503, 2, "n2").breaks(&[Rule::UnexplainedExecution]);
}
