//! The same seed gives the same run.

use std::process::Command;

use semel_simulator::{Options, simulate};

/// In the latter many duplicates of one process are woken at once.
const SEEDS: [std::ops::Range<u64>; 2] = [100..120, 2_380..2_385];

fn trace(seed: u64) -> String {
    let options = Options { is_traced: true, ..Options::default() };
    simulate(seed, options).trace.expect("the run was traced")
}

#[test]
fn twenty_seeds_run_twice_give_equal_traces() {
    for seed in SEEDS.into_iter().flatten() {
        let first = trace(seed);
        assert!(first.lines().count() > 20, "seed {seed} does nothing:\n{first}");
        assert!(first == trace(seed), "seed {seed} took two courses");
    }
}

/// Hashers, addresses and threads differ from one process to the next.
#[test]
fn two_processes_give_equal_traces() {
    let elsewhere = |seed: u64| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_semel-simulator"));
        let output = command.args(["--seed", &seed.to_string(), "--trace"]).output();
        String::from_utf8(output.expect("the simulator runs").stdout).expect("text")
    };
    for seed in SEEDS.into_iter().flatten() {
        assert!(elsewhere(seed) == elsewhere(seed), "seed {seed} took two courses");
        assert!(elsewhere(seed) == trace(seed), "seed {seed} took another course here");
    }
}

#[test]
fn writing_the_trace_changes_nothing() {
    for seed in SEEDS.into_iter().flatten() {
        let silent = simulate(seed, Options::default());
        let traced = simulate(seed, Options { is_traced: true, ..Options::default() });
        assert_eq!(silent.statistics, traced.statistics, "seed {seed}");
    }
}

#[test]
fn seeds_differ() {
    assert_ne!(trace(1), trace(2));
}
