//! The oracle finds what was planted, and calls it by its name.

use std::sync::atomic::AtomicU64;

use semel_simulator::{Campaign, Mistake, Options};

/// Within so many seeds.
const SEEDS: u64 = 3_000;
/// Within so many where it takes a claim that comes late, just when the lease of its own process has run out.
const SEEDS_OF_A_RARE_ONE: u64 = 60_000;

#[test]
fn every_planted_mistake_is_found_by_name() {
    for mistake in Mistake::ALL {
        let options = Options { mistake: Some(mistake), ..Options::default() };
        let is_rare = mistake == Mistake::SuccessorUnseen;
        let seeds = if is_rare { SEEDS_OF_A_RARE_ONE } else { SEEDS };
        let campaign = Campaign { first: 1, seeds, threads: 1, options };
        let report = campaign.run(&AtomicU64::new(0));
        let run = report.broken.unwrap_or_else(|| panic!("{mistake:?} was not found"));
        let violation = run.violation.as_ref().expect("it is broken");
        println!("{mistake:?}: seed {}: {violation}", run.seed);
        assert_eq!(violation.rule, mistake.breaks(), "{mistake:?}: {violation}");
    }
}

#[test]
fn a_report_has_everything_to_repeat_the_run() {
    let options = Options { mistake: Some(Mistake::ReplyAltered), ..Options::default() };
    let campaign = Campaign { first: 1, seeds: SEEDS, threads: 2, options };
    let run = campaign.run(&AtomicU64::new(0)).broken.expect("it is found");
    let report = run.failure_report(options).expect("it is broken");
    for part in [&format!("seed {}: I4 same-answer", run.seed), " for key k", "BROKEN", "--trace"] {
        assert!(report.contains(part), "without {part:?}:\n{report}");
    }
}
