//! What must be true when all faults are over.

use super::story::Story;
use crate::checker::Rule;
use crate::history::{Route, Tier};

#[test]
fn every_gateway_has_a_final_answer() {
    let read = |second: bool, answered: bool| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201);
        if answered {
            story.ok(3, 1, "n1")
        } else {
            story.info(3, 1, "hung-up")
        };
        story.read(10, 2, 0).ok(11, 2, "n1").read(12, 3, 1);
        if second {
            story.ok(13, 3, "n1");
        } else {
            story.fail(13, 3, 503, "upstream");
        }
        story.over();
        story
    };
    read(true, true).breaks(&[]);
    read(true, false).breaks(&[]);
    read(false, true).breaks(&[Rule::AnswerLost, Rule::Liveness]);
    read(false, false).breaks(&[Rule::Liveness]);
}

/// A store that may lose records may lose an answer; a missing final answer of a gateway is another matter.
#[test]
fn no_loss_excuses_a_missing_final_answer() {
    let read = |refusals: &[(u16, &str)]| {
        let mut story = Story::of_tier(Tier::Weak);
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
        story.fault(4, 9, "promoted", &[]);
        story.read(10, 2, 0).ok(11, 2, "n1");
        for (number, (status, code)) in (3..).zip(refusals) {
            story.read(10 * number, number, 1).fail(10 * number + 1, number, *status, code);
        }
        story.over();
        story
    };
    read(&[(503, "upstream"), (503, "upstream")]).breaks(&[Rule::Liveness]);
    // Another body came first to the place of the lost record.
    let mistaken = read(&[(422, "idempotency_payload_mismatch")]).report();
    assert_eq!((mistaken.violations.len(), mistaken.losses.len()), (0, 2), "{mistaken}");
    // The answer of one gateway does not count for another.
    let mut other = Story::of_tier(Tier::Weak);
    other.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    other.fault(4, 9, "promoted", &[]);
    other.read(10, 2, 0).fail(11, 2, 422, "idempotency_payload_mismatch");
    other.read(20, 3, 1).info(5_020, 3, "timeout 5000").over().breaks(&[Rule::Liveness]);
}

/// The story: a gateway that was mistaken and then knew better was counted twice, and so stood for another.
#[test]
fn a_gateway_that_answers_twice_is_one() {
    let read = |is_second_answered: bool| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).info(3, 1, "hung-up");
        story.read(10, 2, 0).fail(11, 2, 422, "idempotency_payload_mismatch");
        story.read(12, 3, 0).ok(13, 3, "n1").read(14, 4, 1);
        if is_second_answered {
            story.fail(15, 4, 422, "idempotency_payload_mismatch");
        } else {
            story.info(5_014, 4, "timeout 5000");
        }
        story.over();
        story
    };
    read(true).breaks(&[Rule::MismatchInert]);
    read(false).breaks(&[Rule::MismatchInert, Rule::Liveness]);
}

#[test]
fn every_gateway_is_asked_for_every_key_unless_the_run_broke_off() {
    let executed = || {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
        story
    };
    executed().over().breaks(&[Rule::Liveness]);
    executed().read(10, 2, 0).ok(11, 2, "n1").over().breaks(&[Rule::Liveness]);
    executed().read(10, 2, 0).ok(11, 2, "n1").breaks(&[]);
    assert!(!executed().report().is_whole);
    // What is wrong before the end is wrong all the same.
    let mut broken = executed();
    broken.call(10, 2, 1).fail(11, 2, 409, "request_in_progress").breaks(&[Rule::SettledIsFinal]);
}

#[test]
fn the_final_answer_comes_in_time() {
    let took = |ms: u64, back: bool| {
        let mut story = Story::new();
        if back {
            story.fault(0, 0, "clock-back", &[]);
        }
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).info(3, 1, "hung-up");
        story.read(10, 2, 0).ok(11, 2, "n1");
        story.read(12, 3, 1).fail(13, 3, 409, "request_in_progress");
        story.read(10 + ms, 4, 1).ok(10 + ms, 4, "n1").over();
        story
    };
    // The one that is settled cannot be in progress, so it is another rule's as well.
    took(6_000, false).breaks(&[Rule::SettledIsFinal]);
    took(9_000, false).breaks(&[Rule::SettledIsFinal, Rule::Liveness]);
    took(9_000, true).breaks(&[Rule::SettledIsFinal]);
    // What the machine stood still does not count.
    took(9_000, false).fault(1_000, 4_000, "stall", &[]).breaks(&[Rule::SettledIsFinal]);
    let mut briefly = took(9_000, false);
    briefly.fault(1_000, 2_000, "stall", &[]).breaks(&[Rule::SettledIsFinal, Rule::Liveness]);
}

/// The story: a disk was full when the process that executed was gone, and its lease lasted on.
#[test]
fn a_lease_lasts_on_after_a_full_disk() {
    let took = |ms: u64, full: u64| {
        let mut story = Story::new();
        story.fault(0, full, "disk-full", &[]);
        story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).info(3, 1, "hung-up");
        story.read(10_000, 2, 0).ok(10_001, 2, "n1");
        story.read(10_000 + ms, 4, 1).ok(10_000 + ms, 4, "n1").over();
        story
    };
    took(14_000, 9_500).breaks(&[]);
    took(14_000, 8_500).breaks(&[Rule::Liveness]);
    took(15_000, 9_500).breaks(&[Rule::Liveness]);
}

/// *Unknown* in the last reads, and again after the time in which a claim may be in doubt.
fn held(story: &mut Story) -> &mut Story {
    story.read(30_000, 10, 0).fail(30_001, 10, 409, "outcome_unknown");
    story.read(30_002, 11, 1).fail(30_003, 11, 409, "outcome_unknown");
    story.read(39_500, 12, 1).fail(39_501, 12, 409, "outcome_unknown").over()
}

#[test]
fn an_undisturbed_execution_leaves_an_outcome() {
    let executed = |status: u16, fault: Option<&str>| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1);
        if let Some(kind) = fault {
            story.fault(11, 500, kind, &[0]);
        }
        story.info(12, 1, "hung-up").end(20, "n1", status);
        held(&mut story);
        story
    };
    executed(201, None).breaks(&[Rule::Detached]);
    executed(201, Some("front-cut")).breaks(&[Rule::Detached]);
    executed(201, Some("gateway-kill")).breaks(&[]);
    executed(201, Some("back-cut")).breaks(&[Rule::SettlingGivenUp]);
    executed(0, Some("back-cut")).breaks(&[]);
    executed(0, None).breaks(&[]);
}

#[test]
fn a_live_holder_with_its_store_settles_eventually() {
    let executed = |status: u16, faults: &[(u64, u64, &str, usize)]| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1).end(20, "n1", status);
        for (from, until, kind, on) in faults {
            story.fault(*from, *until, kind, &[*on]);
        }
        story.ok_with(400, 1, "n1", |answer| (answer.status, answer.stored) = (status, "no"));
        held(&mut story);
        story
    };
    let cut = (11, 500, "back-cut", 0);
    executed(201, &[cut]).breaks(&[Rule::SettlingGivenUp]);
    executed(402, &[cut]).breaks(&[Rule::SettlingGivenUp]);
    // It was frozen, and went on.
    executed(201, &[(11, 5_000, "gateway-pause", 0)]).breaks(&[Rule::SettlingGivenUp]);
    // Another ended, or it ended itself.
    executed(201, &[cut, (900, 1_000, "gateway-kill", 1)]).breaks(&[Rule::SettlingGivenUp]);
    executed(201, &[cut, (900, 1_000, "gateway-kill", 0)]).breaks(&[]);
    executed(201, &[cut, (900, 1_000, "gateway-term", 0)]).breaks(&[]);
    // Its store was not there for long enough.
    executed(201, &[(11, 31_000, "back-cut", 0)]).breaks(&[]);
    let mut lost = Story::of_tier(Tier::Weak);
    lost.call(0, 1, 0).begin(10, "n1", 0, 1).fault(11, 500, "back-cut", &[0]).end(20, "n1", 201);
    lost.info(30, 1, "broken").fault(100, 900, "promoted", &[]);
    let report = held(&mut lost).report();
    assert_eq!((report.violations.len(), report.losses.len()), (0, 1), "{report}");
}

#[test]
fn a_key_without_execution_is_held_only_if_its_holder_died_or_had_no_time() {
    let disturbed = |from: u64, until: u64, kind: &str| {
        let mut story = Story::new();
        story.call(0, 1, 0).info(5, 1, "broken").fault(from, until, kind, &[0]);
        held(&mut story);
        story
    };
    let mut story = Story::new();
    story.call(0, 1, 0).info(5, 1, "broken");
    held(&mut story).breaks(&[Rule::HeldUnexecuted]);
    disturbed(1, 400, "gateway-kill").breaks(&[]);
    // A gateway that was only cut off hands the lease back, a little later.
    disturbed(1, 400, "back-reset").breaks(&[Rule::HeldUnexecuted]);
    disturbed(1, 25_000, "back-reset").breaks(&[Rule::HeldUnexecuted]);
    disturbed(1, 32_000, "back-reset").breaks(&[]);
    // It died while it was in doubt, or only when it had had its time.
    disturbed(33_000, 33_400, "gateway-kill").breaks(&[]);
    disturbed(39_200, 39_400, "gateway-kill").breaks(&[Rule::HeldUnexecuted]);
}

/// The story: an execution was handed back, its successor's gateway died before it executed, and the first
/// was accused.
#[test]
fn a_holder_of_a_released_lease_may_die_before_it_executes() {
    let released = |killed: Option<u64>| {
        let mut story = Story::new();
        story.call(0, 1, 0).begin(10, "n1", 0, 1).end(20, "n1", 503).gave_back(21, 1, "n1");
        story.call(5_000, 2, 1).info(5_100, 2, "broken");
        if let Some(at) = killed {
            story.fault(at, at + 400, "gateway-kill", &[1]);
        }
        held(&mut story);
        story
    };
    released(Some(5_050)).breaks(&[]);
    // No gateway died, or not before it had had its time.
    released(None).breaks(&[Rule::HeldUnexecuted]);
    released(Some(39_200)).breaks(&[Rule::HeldUnexecuted]);
}

/// The story: a claim stood still on its way, was sent again by another and granted, executed and handed back; then
/// the first arrived and was granted too. What had delayed it excused that the key was held.
#[test]
fn a_claim_that_comes_late_leaves_no_lease_behind() {
    let mut story = Story::new();
    story.call(0, 1, 0).fault(5, 4_000, "back-late", &[0]);
    story.begin(1_100, "n1", 0, 1).end(1_120, "n1", 503).gave_back(1_121, 1, "n1");
    story.call(4_100, 2, 1).fail(4_101, 2, 409, "request_in_progress");
    held(&mut story).breaks(&[Rule::HeldUnexecuted]);
}

#[test]
fn a_death_after_a_key_was_found_held_is_no_excuse() {
    let mut story = Story::new();
    story.call(0, 1, 0).info(5, 1, "broken");
    story.call(4_000, 2, 1).fail(4_001, 2, 409, "outcome_unknown");
    story.fault(20_000, 20_400, "gateway-kill", &[0]);
    held(&mut story).breaks(&[Rule::HeldUnexecuted]);
}

#[test]
fn a_lease_that_was_handed_back_may_be_lost_with_a_failover() {
    let mut story = Story::of_tier(Tier::Weak);
    story.call(0, 1, 0).info(5, 1, "broken").fault(100, 900, "promoted", &[]);
    let report = held(&mut story).report();
    assert_eq!((report.violations.len(), report.losses.len()), (0, 1), "{report}");
}

#[test]
fn a_holder_that_comes_back_resolves_a_held_key() {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(10, "n1", 0, 1).fault(11, 5_000, "gateway-pause", &[0]);
    story.call(3_000, 2, 1).fail(3_001, 2, 409, "outcome_unknown").end(20, "n1", 201);
    story
        .ok(5_050, 1, "n1")
        .read(6_000, 3, 0)
        .ok(6_001, 3, "n1")
        .read(6_002, 4, 1)
        .ok(6_003, 4, "n1");
    story.breaks(&[]);
    assert_eq!(story.report().unknown, 1);
    story.on(Route::Hold).read(7_000, 5, 1).fail(7_001, 5, 409, "outcome_unknown");
    story.breaks(&[Rule::SettledIsFinal]);
}
