//! What may be executed.

use super::story::Story;
use crate::checker::Rule;
use crate::history::{Route, Tier};

/// An execution on gateway 0 that goes on for `takes` ms, and the next one on gateway 1 at `next`.
fn again(route: Route, takes: u64, next: u64) -> Story {
    let mut story = Story::new();
    story.on(route).call(0, 1, 0).begin(10, "n1", 0, 1).end(10 + takes, "n1", 201);
    story.call(next, 2, 1).begin(next, "n2", 1, 2).end(next + 5, "n2", 201).ok(next + 6, 2, "n2");
    story
}

#[test]
fn a_further_execution_needs_a_fault_of_its_gateway() {
    again(Route::Reexecute, 5, 2_500).breaks(&[Rule::UnexplainedExecution]);
    for kind in ["gateway-kill", "gateway-pause", "back-reset"] {
        again(Route::Reexecute, 5, 2_500).fault(12, 900, kind, &[0]).breaks(&[]);
        let mut elsewhere = again(Route::Reexecute, 5, 2_500);
        elsewhere.fault(12, 900, kind, &[1]).breaks(&[Rule::UnexplainedExecution]);
    }
    for kind in ["store-kill", "store-pause", "clock-forward", "disk-full"] {
        again(Route::Reexecute, 5, 2_500).fault(12, 900, kind, &[]).breaks(&[]);
    }
}

#[test]
fn some_faults_explain_no_further_execution() {
    for kind in ["front-cut", "gateway-term", "near-kill"] {
        let mut story = again(Route::Reexecute, 5, 2_500);
        story.fault(0, 3_000, kind, &[0]).breaks(&[Rule::UnexplainedExecution]);
    }
    // Long after the first was done.
    let mut late = again(Route::Reexecute, 5, 20_000);
    late.fault(15_000, 15_500, "gateway-kill", &[0]).breaks(&[Rule::UnexplainedExecution]);
}

#[test]
fn a_fault_excuses_only_overlapping_events() {
    for (from, until, broken) in
        [(12, 900, &[][..]), (400, 900, &[]), (600, 900, &[Rule::UnexplainedExecution])]
    {
        again(Route::Reexecute, 5, 2_500).fault(from, until, "back-cut", &[0]).breaks(broken);
    }
    let before = |ended: u64| {
        let mut story = Story::new();
        story.on(Route::Reexecute).fault(0, ended, "back-cut", &[0]);
        story.call(5_000, 1, 0).begin(5_000, "n1", 0, 1).end(5_005, "n1", 201);
        story.call(8_000, 2, 1).begin(8_000, "n2", 1, 2).end(8_005, "n2", 201).ok(8_006, 2, "n2");
        story
    };
    before(4_500).breaks(&[]);
    before(3_500).breaks(&[Rule::UnexplainedExecution]);
}

#[test]
fn a_stall_explains_a_lost_lease_only_if_it_took_most_of_one() {
    let stalled = |stalls: &[(u64, u64)]| {
        let mut story = again(Route::Reexecute, 4_000, 2_500);
        for (from, until) in stalls {
            story.fault(*from, *until, "stall", &[]);
        }
        story
    };
    stalled(&[(100, 1_400)]).breaks(&[]);
    stalled(&[(100, 700)]).breaks(&[Rule::OneLease]);
    // Several within a lease count together, and what two have noticed counts once.
    stalled(&[(100, 800), (1_000, 1_600)]).breaks(&[]);
    stalled(&[(100, 800), (200, 850)]).breaks(&[Rule::OneLease]);
}

#[test]
fn a_fault_of_the_replay_cache_costs_no_lease() {
    let mut far = again(Route::Reexecute, 5, 2_500);
    far.fault(12, 900, "back-black-hole", &[0]).breaks(&[]);
    let mut near = again(Route::Reexecute, 5, 2_500);
    near.near_fault(12, 900, "back-black-hole", 0).breaks(&[Rule::UnexplainedExecution]);
}

#[test]
fn two_executions_at_once_need_a_lost_lease() {
    again(Route::Reexecute, 4_000, 2_500).breaks(&[Rule::OneLease]);
    again(Route::Reexecute, 4_000, 2_500).fault(12, 2_400, "gateway-pause", &[0]).breaks(&[]);
}

#[test]
fn a_dead_holders_lease_runs_on() {
    let mut early = again(Route::Reexecute, 4_000, 500);
    early.fault(12, 100, "gateway-kill", &[0]).breaks(&[Rule::OneLease]);
    let mut in_time = again(Route::Reexecute, 4_000, 2_100);
    in_time.fault(12, 100, "gateway-kill", &[0]).breaks(&[]);
    // Unless the store's clock ran ahead.
    let mut ahead = again(Route::Reexecute, 4_000, 500);
    ahead.fault(12, 100, "gateway-kill", &[0]).fault(300, 300, "clock-forward", &[]).breaks(&[]);
}

/// Sent at `asked`, and answered *unknown* at once, during an execution from 2000 until `end`.
fn called_unknown(tier: Tier, asked: u64, end: u64) -> Story {
    let mut story = Story::of_tier(tier);
    story.call(1_900, 1, 0).call(asked, 2, 1).begin(2_000, "n1", 0, 1);
    story.fail(asked + 150, 2, 409, "outcome_unknown").end(end, "n1", 201).ok(end + 1, 1, "n1");
    story
}

#[test]
fn a_running_execution_is_not_unknown() {
    let called = |asked, end| called_unknown(Tier::Strong, asked, end);
    called(2_500, 5_000).breaks(&[Rule::OneLease]);
    // Sent before it began, or answered when it may have ended.
    called(1_950, 5_000).breaks(&[]);
    called(4_000, 5_000).breaks(&[]);
    called(3_800, 5_000).breaks(&[Rule::OneLease]);
    // It was cut off: when it would have ended is not known.
    let mut endless = Story::new();
    endless.call(0, 1, 0).begin(1, "n1", 0, 1).call(500, 2, 1).fail(501, 2, 409, "outcome_unknown");
    endless.info(9_000, 1, "broken").breaks(&[]);
}

#[test]
fn a_running_execution_may_be_unknown_if_its_lease_may_be_lost() {
    let disturbed = |from: u64, until: u64, kind: &str, hits: &[usize]| {
        let mut story = called_unknown(Tier::Strong, 3_500, 6_000);
        story.fault(from, until, kind, hits);
        story
    };
    let of_gateway =
        ["gateway-kill", "gateway-pause", "gateway-term", "back-reset", "back-latency"];
    for kind in of_gateway {
        disturbed(2_100, 3_600, kind, &[0]).breaks(&[]);
        disturbed(500, 1_100, kind, &[0]).breaks(&[]);
        // Of another gateway, long before, or only after the answer.
        disturbed(2_100, 3_600, kind, &[1]).breaks(&[Rule::OneLease]);
        disturbed(0, 900, kind, &[0]).breaks(&[Rule::OneLease]);
        disturbed(3_700, 4_000, kind, &[0]).breaks(&[Rule::OneLease]);
    }
    for kind in ["store-kill", "store-handover", "clock-forward", "disk-full", "stall"] {
        disturbed(2_100, 3_600, kind, &[]).breaks(&[]);
    }
    for kind in ["front-black-hole", "near-kill"] {
        disturbed(2_100, 3_600, kind, &[0]).breaks(&[Rule::OneLease]);
    }
    let mut lost = called_unknown(Tier::Weak, 3_500, 6_000);
    let report = lost.fault(3_400, 3_600, "promoted", &[]).report();
    assert_eq!((report.violations.len(), report.losses.len()), (0, 1), "{report}");
}

#[test]
fn a_key_with_an_upstream_503_may_be_executed_again() {
    let given_back = |route: Route, status: u16, next: u64| {
        let mut story = Story::new();
        story.on(route).call(0, 1, 0).begin(10, "n1", 0, 1).end(20, "n1", status);
        story.call(next, 2, 1).begin(next, "n2", 1, 2).end(next + 5, "n2", 201);
        story.ok(next + 6, 2, "n2");
        story
    };
    given_back(Route::Hold, 503, 30).breaks(&[]);
    given_back(Route::Reexecute, 503, 30).breaks(&[]);
    given_back(Route::Reexecute, 0, 30).breaks(&[]);
    given_back(Route::Hold, 0, 30).breaks(&[Rule::HoldExecutedAgain]);
    given_back(Route::Reexecute, 503, 15).breaks(&[Rule::OneLease]);
}

#[test]
fn under_hold_no_fault_explains_a_further_execution() {
    let mut story = again(Route::Hold, 5, 2_500);
    story.fault(12, 900, "gateway-kill", &[0]).breaks(&[Rule::HoldExecutedAgain]);
}

#[test]
fn an_execution_has_a_claim_of_its_own() {
    let mut without = Story::new();
    without.call(0, 1, 0).begin_with(1, "n1", 0, None, 0).end(2, "n1", 201).info(3, 1, "hung-up");
    without.breaks(&[Rule::ClaimFirst]);
    let twice = |fault: bool| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).end(15, "n1", 201);
        if fault {
            story.fault(20, 90, "store-kill", &[]);
        }
        story.info(20, 1, "broken").call(90, 2, 1).begin(95, "n2", 1, 1).end(99, "n2", 201);
        story
    };
    twice(true).breaks(&[Rule::ClaimFirst]);
    twice(false).breaks(&[Rule::OneLease]);
}

#[test]
fn a_settled_record_is_not_executed() {
    let mut story = Story::new();
    story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).end(15, "n1", 201);
    story.fault(12, 20, "gateway-kill", &[0]).ok(20, 1, "n1");
    story
        .call(3_000, 2, 1)
        .begin(3_001, "n2", 1, 2)
        .end(3_002, "n2", 201)
        .info(3_003, 2, "hung-up");
    story.breaks(&[Rule::SettledIsFinal]);
}

#[test]
fn a_late_holder_must_not_record_its_outcome() {
    // The first is frozen, taken over, and goes on.
    let taken_over = |recorded: &str| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1);
        story.fault(11, 3_000, "gateway-pause", &[0]).end(900, "n1", 201);
        story.call(2_500, 2, 1).begin(2_501, "n2", 1, 2).end(2_502, "n2", 201);
        story.ok(3_100, 1, recorded);
        story
    };
    taken_over("n2").breaks(&[]);
    taken_over("n1").breaks(&[Rule::Fenced]);
}

#[test]
fn a_fence_goes_back_only_where_a_gateway_was_held_up() {
    let late = |fault: &str| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, 0).call(2_400, 2, 1);
        story.fault(5, 2_900, fault, &[0]);
        story.begin(2_500, "n2", 1, 2).end(2_501, "n2", 201).ok(2_502, 2, "n2");
        story.begin(2_950, "n1", 0, 1).end(2_951, "n1", 201).ok(2_952, 1, "n2");
        story
    };
    late("gateway-pause").breaks(&[]);
    assert_eq!(late("gateway-pause").report().late, 1);
    late("gateway-kill").breaks(&[Rule::FenceWentBack]);
    late("front-cut").breaks(&[Rule::FenceWentBack]);
    // It was held up, but long before the other was granted its lease.
    let mut long_ago = Story::new();
    long_ago.on(Route::Reexecute).call(0, 1, 0).fault(5, 2_900, "gateway-pause", &[0]);
    long_ago.call(8_900, 2, 1).begin(9_000, "n2", 1, 2).end(9_001, "n2", 201).ok(9_002, 2, "n2");
    long_ago.begin(9_400, "n1", 0, 1).end(9_401, "n1", 201).ok(9_402, 1, "n2");
    long_ago.breaks(&[Rule::FenceWentBack]);
}

/// Answered, and executed again with the same fence: the record is gone.
fn lost(tier: Tier, kind: &str) -> Story {
    let mut story = Story::of_tier(tier);
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.fault(10, 2_000, kind, &[]);
    story.call(2_100, 2, 1).begin(2_101, "n2", 1, 1).end(2_102, "n2", 201).ok(2_103, 2, "n2");
    story
}

#[test]
fn a_loss_by_a_promoted_replica_is_counted_and_no_violation() {
    let weak = lost(Tier::Weak, "promoted").report();
    assert_eq!((weak.violations.len(), weak.losses.len()), (0, 2), "{weak}");
    let shown = weak.to_string();
    let by_rule = "lost by a failover, as this store may: I1 one-lease 1, I4 one-answer 1\n";
    assert!(shown.contains(by_rule), "{shown}");
    lost(Tier::Strong, "promoted").breaks(&[Rule::OneAnswer, Rule::OneLease]);
}

#[test]
fn an_orderly_promotion_excuses_no_loss() {
    for kind in ["store-failover", "store-pause", "store-handover", "promoted-orderly"] {
        let rule = if kind == "promoted-orderly" { Rule::OneLease } else { Rule::ClaimFirst };
        lost(Tier::Weak, kind).breaks(&[Rule::OneAnswer, rule]);
    }
}

#[test]
fn a_lost_record_excuses_only_its_own_effects() {
    let mut without = Story::of_tier(Tier::Weak);
    without.call(0, 1, 0).fault(1, 9, "promoted", &[]).begin_with(5, "n1", 0, None, 0);
    without.end(6, "n1", 201).info(7, 1, "hung-up").breaks(&[Rule::ClaimFirst]);
    let mut unrecorded = Story::of_tier(Tier::Weak);
    unrecorded.call(0, 1, 0).begin(1, "n1", 0, 1).fault(1, 9, "promoted", &[]);
    unrecorded.end(2, "n1", 201).ok_with(400, 1, "n1", |answer| answer.stored = "no");
    unrecorded.breaks(&[Rule::SettleFirst]);
    let mut unread = Story::of_tier(Tier::Weak);
    unread.call(0, 1, 0).fault(1, 9, "promoted", &[]).info(7, 1, "hung-up").over();
    unread.breaks(&[Rule::Liveness]);
}
