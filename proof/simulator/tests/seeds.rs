//! Many seeds, and no rule broken in any.

use std::sync::atomic::AtomicU64;

use semel_simulator::{Campaign, Fault, Options};

#[test]
fn fifty_thousand_seeds_break_no_rule() {
    let options = Options::default();
    let campaign = Campaign { first: 1, seeds: 50_000, threads: 2, options };
    let report = campaign.run(&AtomicU64::new(0));
    println!("{}", report.statistics);
    if let Some(failure) = report.broken.and_then(|run| run.failure_report(options)) {
        panic!("{failure}");
    }
    assert_eq!(report.statistics.seeds, campaign.seeds);
    for kind in Fault::ALL {
        assert!(report.statistics.faults(kind) > 1_000, "too little of: {kind}");
    }
}
