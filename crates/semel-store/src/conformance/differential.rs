//! Random histories, played on the store and on the reference side by side: every answer and every
//! record must be equal. This is what holds a store that decides in a script or a statement to the
//! core's decisions.

mod history;
mod timed;

use proptest::test_runner::{Config, RngSeed, TestRunner, contextualize_config};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Fixture;
use history::Pair;

/// Any sequence of verbs, with leases used late and claims repeated, is answered as the reference
/// answers it.
///
/// The histories are the same in every run; `PROPTEST_RNG_SEED` and `PROPTEST_CASES` choose others.
/// A failure is shrunk to the shortest history that shows it.
pub async fn random_histories_agree_with_the_reference<F: Fixture>() {
    let mut runners = JoinSet::new();
    for number in 0..RUNNERS {
        let runtime = Handle::current();
        // The runner is synchronous, and blocking is forbidden on the runtime's own threads.
        runners.spawn_blocking(move || {
            TestRunner::new(config::<F>(number))
                .run(&history::histories(), |history| runtime.block_on(Pair::<F>::play(history)))
        });
    }
    for played in runners.join_all().await {
        if let Err(disagreement) = played {
            panic!("{disagreement}");
        }
    }
}

/// So many histories at a time: a store on a server has a wait in every step.
const RUNNERS: u32 = 2;

fn config<F: Fixture>(runner: u32) -> Config {
    contextualize_config(Config {
        cases: F::HISTORIES.div_ceil(RUNNERS),
        rng_seed: RngSeed::Fixed(0x005e_6e1f + u64::from(runner)),
        max_shrink_iters: 2_000,
        failure_persistence: None,
        ..Config::default()
    })
}
