//! What gateways may end with.

use super::story::Story;
use crate::checker::Rule;
use crate::history::Wish;

/// Gateway 0 was killed, and is up again, at the first try or at the second.
fn started(first_done: bool) -> Story {
    let mut story = Story::new();
    story.fault(10_000, 11_000, "gateway-kill", &[0]);
    story.asked((10_200, 10_300), 0, Wish::Start, first_done);
    if !first_done {
        story.asked((10_400, 10_990), 0, Wish::Start, true);
    }
    story
}

/// Gateway 0 was asked to end, and did so after 8 s.
fn ended(done: bool) -> Story {
    let mut story = Story::new();
    story.fault(50_000, 58_900, "gateway-term", &[0]);
    story.asked((50_000, 58_000), 0, Wish::End, done).asked((58_001, 58_800), 0, Wish::Start, true);
    story
}

fn trials(story: &Story) -> u64 {
    story.report().trials.get(&Rule::BadExit).copied().unwrap_or_default()
}

#[test]
fn a_gateway_starts_at_the_first_try() {
    started(true).breaks(&[]);
    started(false).breaks(&[Rule::BadExit]);
}

#[test]
fn a_start_fails_if_its_store_is_away() {
    for kind in ["store-kill", "store-restart", "disk-full", "back-black-hole"] {
        started(false).fault(10_000, 10_250, kind, &[]).breaks(&[]);
        // Until it is found again.
        started(false).fault(6_000, 6_500, kind, &[]).breaks(&[]);
        started(false).fault(5_000, 6_000, kind, &[]).breaks(&[Rule::BadExit]);
        // When it had failed already.
        started(false).fault(10_350, 12_000, kind, &[]).breaks(&[Rule::BadExit]);
    }
    started(false).fault(10_000, 10_250, "back-cut", &[0]).breaks(&[]);
    started(false).fault(10_000, 10_250, "back-cut", &[1]).breaks(&[Rule::BadExit]);
}

/// A tiered gateway starts without its copies. And it was the one before it that was frozen.
#[test]
fn some_faults_keep_no_gateway_from_its_start() {
    for kind in ["front-cut", "near-kill", "clock-back", "gateway-pause"] {
        started(false).fault(9_500, 10_500, kind, &[0]).breaks(&[Rule::BadExit]);
    }
    started(false).near_fault(9_500, 10_500, "back-cut", 0).breaks(&[Rule::BadExit]);
}

#[test]
fn only_a_long_stall_keeps_a_gateway_from_its_start() {
    started(false).fault(9_000, 10_250, "stall", &[]).breaks(&[]);
    started(false).fault(10_000, 10_250, "stall", &[]).breaks(&[Rule::BadExit]);
}

#[test]
fn nothing_is_cut_off_at_the_end() {
    ended(true).breaks(&[]);
    ended(false).breaks(&[Rule::BadExit]);
    for kind in ["front-black-hole", "near-pause", "clock-forward"] {
        ended(false).fault(49_000, 57_000, kind, &[0]).breaks(&[Rule::BadExit]);
    }
}

#[test]
fn work_is_cut_off_if_the_store_was_away() {
    for kind in ["store-pause", "disk-full", "back-half-open", "gateway-pause"] {
        ended(false).fault(51_000, 52_000, kind, &[]).breaks(&[]);
        // A claim that was sent then, and not answered, may yet arrive.
        ended(false).fault(20_000, 21_000, kind, &[0]).breaks(&[]);
        ended(false).fault(20_000, 21_000, kind, &[1]).breaks(&[Rule::BadExit]);
        ended(false).fault(13_000, 14_000, kind, &[0]).breaks(&[Rule::BadExit]);
    }
}

/// A claim without an answer ended with its process.
#[test]
fn a_gateway_is_not_in_doubt_about_claims_of_another() {
    let restarted = |on: usize| {
        let mut story = ended(false);
        story.fault(20_000, 21_000, "store-kill", &[]).fault(30_000, 31_000, "gateway-kill", &[on]);
        story
    };
    restarted(0).breaks(&[Rule::BadExit]);
    restarted(1).breaks(&[]);
}

#[test]
fn a_bad_exit_names_its_gateway() {
    let shown = started(false).report().violations[0].to_string();
    let expected = "bad-exit: gateway 0: it could not start, and its store was there: \
                    error: no luck (lines [4])";
    assert_eq!(shown, expected);
}

#[test]
fn every_start_and_end_without_an_excuse_is_a_trial() {
    assert_eq!((trials(&started(true)), trials(&started(false))), (1, 2));
    assert_eq!((trials(&ended(true)), trials(&ended(false))), (2, 2));
    assert_eq!(trials(started(true).fault(10_000, 10_250, "store-kill", &[])), 0);
    // It was there again when the gateway was started.
    assert_eq!(trials(ended(true).fault(50_500, 51_000, "store-kill", &[])), 1);
}

/// Histories from before this was written down say nothing about it.
#[test]
fn a_history_without_exits_tries_none() {
    let old = r#"{"t":0,"e":"head","seed":1,"store":"redis","tier":"strong","seconds":1,"gateways":1,"clients":1,"lease_ms":2000,"kinds":[],"versions":"","command":""}
{"t":10,"e":"fault","id":1,"kind":"gateway-kill","hits":[0],"note":"gateway 0"}
{"t":90,"e":"healed","id":1}
"#;
    let report = crate::checker::check_lines(old.as_bytes()).expect("a history");
    assert!(report.violations.is_empty() && report.trials.is_empty(), "{report}");
}
