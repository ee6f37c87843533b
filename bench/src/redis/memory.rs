//! What a settled record takes of the server's memory.

use semel_core::Policy;

use super::{Bench, info};
use crate::figures::Line;
use crate::store_load as load;

/// How many settled records are weighed, of each size.
const WEIGHED: u32 = 20_000;
const ASKED_FOR: usize = 300;
const REPLIES: [usize; 4] = [100, ASKED_FOR, 1_000, 10_000];

pub(super) async fn run(bench: &Bench<'_>) -> anyhow::Result<Line> {
    let mut asked_for = f64::NAN;
    for reply in REPLIES {
        let each = weigh(bench, reply).await?;
        println!(
            "reply of {reply:>6} bytes: {each:>6.0} bytes per record, {:>6.2} GB per million",
            each * 1e6 / 1e9
        );
        if reply == ASKED_FOR {
            asked_for = each;
        }
    }
    Ok(Line {
        what: format!("bytes of memory per settled record with a reply of {ASKED_FOR} bytes"),
        value: format!("{asked_for:.0}"),
        asked: "at most 900".into(),
        reached: asked_for <= 900.0,
    })
}

async fn weigh(bench: &Bench<'_>, reply: usize) -> anyhow::Result<f64> {
    bench.server.cli(&["FLUSHALL"])?;
    let before = info(&bench.server, "memory", "used_memory")?;
    let policy = Policy::default();
    for _ in 0..WEIGHED {
        load::pair_of(&bench.store, &policy, vec![0xab; reply]).await?;
    }
    Ok((info(&bench.server, "memory", "used_memory")? - before) / f64::from(WEIGHED))
}
