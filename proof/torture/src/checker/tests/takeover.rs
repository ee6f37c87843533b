//! A gateway that lives does not take over from itself.

use super::story::Story;
use crate::checker::Rule;
use crate::history::{Route, Tier};

/// Executed on gateway 0 while the store goes away from 12 until 5,000, and retried there at 5,050.
fn away(tier: Tier, kind: &str) -> Story {
    let mut story = Story::of_tier(tier);
    story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).fault(12, 5_000, kind, &[]);
    story.end(100, "n1", 201).info(160, 1, "timeout 160").call(5_050, 2, 0);
    story
}

fn executed_again(story: &mut Story, gateway: usize, fence: u64) -> &mut Story {
    story.begin(5_060, "n2", gateway, fence).end(5_061, "n2", 201).ok(5_062, 2, "n2")
}

fn trials(story: &Story) -> u64 {
    story.report().trials.get(&Rule::SelfTakeover).copied().unwrap_or_default()
}

#[test]
fn no_fault_excuses_a_takeover_from_oneself() {
    for kind in [
        "store-kill",
        "store-outage",
        "back-black-hole",
        "disk-full",
        "clock-forward",
        "gateway-pause",
    ] {
        executed_again(&mut away(Tier::Strong, kind), 0, 2).breaks(&[Rule::SelfTakeover]);
    }
    // While it is still executed, too.
    let mut running = Story::new();
    running.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1);
    running.fault(12, 5_000, "store-pause", &[]).call(5_050, 2, 0).begin(5_060, "n2", 0, 2);
    running.end(6_000, "n1", 201).end(5_061, "n2", 201).ok(6_002, 2, "n2");
    running.breaks(&[Rule::SelfTakeover]);
}

#[test]
fn another_gateway_or_another_process_may_take_over() {
    executed_again(&mut away(Tier::Strong, "store-kill"), 1, 2).breaks(&[]);
    for kind in ["gateway-kill", "gateway-term"] {
        let mut restarted = away(Tier::Strong, "store-kill");
        executed_again(restarted.fault(3_000, 3_500, kind, &[0]), 0, 2).breaks(&[]);
        let mut other = away(Tier::Strong, "store-kill");
        other.fault(3_000, 3_500, kind, &[1]);
        executed_again(&mut other, 0, 2).breaks(&[Rule::SelfTakeover]);
    }
}

/// The same, though another lease was granted between the two, under which nothing was executed.
fn executed_later(story: &mut Story) -> &mut Story {
    executed_again(story, 0, 3)
}

#[test]
fn a_lease_between_that_can_only_be_its_own_excuses_nothing() {
    executed_later(&mut away(Tier::Strong, "store-outage")).breaks(&[Rule::SelfTakeover]);
    executed_again(&mut away(Tier::Strong, "store-kill"), 0, 5).breaks(&[Rule::SelfTakeover]);
    // The other gateway was asked too late, was asked for another key, or ended: it had nothing to claim.
    let mut late = away(Tier::Strong, "store-outage");
    executed_later(&mut late).call(5_070, 3, 1).ok(5_071, 3, "n2").breaks(&[Rule::SelfTakeover]);
    let mut other = away(Tier::Strong, "store-outage");
    other.with_key("other").call(100, 3, 1).info(200, 3, "timeout 100").with_key("k");
    executed_later(&mut other).breaks(&[Rule::SelfTakeover]);
    let mut ended = away(Tier::Strong, "store-outage");
    executed_later(ended.fault(3_000, 3_500, "gateway-kill", &[1])).breaks(&[Rule::SelfTakeover]);
}

#[test]
fn a_process_with_a_refused_settlement_is_done() {
    // The other gateway was asked, and may have been granted fence 2.
    let mut asked = away(Tier::Strong, "store-kill");
    executed_later(asked.call(5_010, 3, 1).info(5_020, 3, "timeout 10")).breaks(&[]);
    // It was asked long before, and what it claimed was under way since.
    let asked_before = |ms: u64| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 3, 1).fail(1, 3, 503, "idempotency_store_unavailable");
        story.fault(0, 2, "store-kill", &[]).call(ms, 1, 0).begin(ms + 10, "n1", 0, 1);
        story.fault(ms + 12, ms + 5_000, "store-outage", &[]).end(ms + 100, "n1", 201);
        story.info(ms + 160, 1, "timeout 160").call(ms + 5_050, 2, 0);
        story.begin(ms + 5_060, "n2", 0, 3).end(ms + 5_061, "n2", 201).ok(ms + 5_062, 2, "n2");
        story
    };
    asked_before(40_000).breaks(&[]);
    asked_before(60_000).breaks(&[Rule::SelfTakeover]);
    // Or the process that was in this one's place had claimed it.
    let ended_before = |ms: u64| {
        let mut story = Story::new();
        story.on(Route::Reexecute).fault(0, 500, "gateway-kill", &[0]).call(ms, 1, 0);
        story.begin(ms + 10, "n1", 0, 1).fault(ms + 12, ms + 5_000, "store-outage", &[]);
        story.end(ms + 100, "n1", 201).info(ms + 160, 1, "timeout 160").call(ms + 5_050, 2, 0);
        story.begin(ms + 5_060, "n2", 0, 3).end(ms + 5_061, "n2", 201).ok(ms + 5_062, 2, "n2");
        story
    };
    ended_before(20_000).breaks(&[]);
    ended_before(60_000).breaks(&[Rule::SelfTakeover]);
}

#[test]
fn a_released_key_may_be_executed_again_by_the_same_process() {
    let mut story = Story::new();
    story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).end(20, "n1", 503);
    story.gave_back(21, 1, "n1").call(50, 2, 0).begin(60, "n2", 0, 2).end(61, "n2", 201);
    story.ok(62, 2, "n2").breaks(&[]);
}

#[test]
fn a_lost_record_excuses_it_where_records_may_be_lost() {
    let lost = |tier: Tier| {
        let mut story = away(tier, "store-failover");
        story.fault(2_000, 4_000, "promoted", &[]);
        executed_again(&mut story, 0, 2).report().broken().len()
    };
    assert_eq!((lost(Tier::Weak), lost(Tier::Strong)), (0, 1));
}

#[test]
fn a_retry_after_an_outage_that_outlasted_the_lease_is_a_trial() {
    let joined = |story: &mut Story| trials(story.fail(5_055, 2, 409, "request_in_progress"));
    assert_eq!(joined(&mut away(Tier::Strong, "store-outage")), 1);
    assert_eq!(trials(executed_again(&mut away(Tier::Strong, "store-outage"), 0, 2)), 1);
    // Two faults that touch are one outage.
    let mut two = Story::new();
    two.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).end(100, "n1", 201);
    two.fault(12, 1_500, "back-cut", &[0]).fault(1_500, 3_000, "store-kill", &[]);
    two.ok_with(900, 1, "n1", |answer| answer.stored = "no").call(3_050, 2, 0);
    assert_eq!(trials(two.fail(3_051, 2, 409, "request_in_progress")), 1);
}

#[test]
fn a_case_that_shows_no_takeover_is_no_trial() {
    let mut unanswered = away(Tier::Strong, "store-outage");
    assert_eq!(trials(unanswered.info(5_200, 2, "timeout 160")), 0, "no answer");
    let mut refused = away(Tier::Strong, "store-outage");
    assert_eq!(trials(refused.fail(5_055, 2, 503, "idempotency_store_unavailable")), 0);
    let mut near = away(Tier::Strong, "clock-forward");
    assert_eq!(trials(near.fail(5_055, 2, 409, "request_in_progress")), 0, "no outage");
    let mut restarted = away(Tier::Strong, "store-outage");
    restarted.fault(3_000, 3_500, "gateway-kill", &[0]);
    assert_eq!(trials(restarted.fail(5_055, 2, 409, "request_in_progress")), 0, "another process");
    // Its outcome was known when it was asked for.
    let mut known = away(Tier::Strong, "store-outage");
    known.call(5_001, 3, 1).ok(5_002, 3, "n1");
    assert_eq!(trials(known.ok(5_055, 2, "n1")), 0, "settled before");
    // It was away for less than the lease, or the other gateway was asked.
    let asked = |until: u64, gateway: usize| {
        let mut story = Story::new();
        story.on(Route::Reexecute).call(0, 1, 0).begin(10, "n1", 0, 1).end(100, "n1", 201);
        story.fault(12, until, "store-outage", &[]);
        story.ok_with(900, 1, "n1", |answer| answer.stored = "no").call(5_050, 2, gateway);
        trials(story.fail(5_051, 2, 409, "request_in_progress"))
    };
    assert_eq!((asked(3_000, 0), asked(1_900, 0), asked(3_000, 1)), (1, 0, 0));
}
