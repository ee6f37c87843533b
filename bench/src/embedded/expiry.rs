//! Claims while a million records expire.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Policy, Timestamp};
use semel_embedded::{EmbeddedStore, Options};
use semel_store::{Clock, ManualClock, SteadyClock, Store as _};

use super::{Arguments, fill, load, report};
use crate::figures::{Line, median_p99};

const PRODUCERS: usize = 64;
const TTL: Duration = Duration::from_hours(1);

/// The machine's time, moved forward at will.
#[derive(Debug)]
struct Shifted {
    steady: SteadyClock,
    shift: ManualClock,
}

impl Clock for Shifted {
    fn now(&self) -> Timestamp {
        self.steady.now().plus(Duration::from_millis(self.shift.now().as_millis()))
    }
}

pub(crate) async fn run(arguments: &Arguments, scratch: &Path) -> anyhow::Result<Vec<Line>> {
    let (mut calm, mut expiring) = (Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        let path = scratch.join(format!("expiry-{round}"));
        let shift = ManualClock::default();
        let clock = Arc::new(Shifted { steady: SteadyClock::start(), shift: shift.clone() });
        let store = Options::new(&path)
            .clock(clock)
            .sweep_every(Some(Duration::from_millis(100)))
            .open()?;
        let policy = Policy::builder().ttl(TTL).build()?;
        fill::settle_many(&store, arguments.expiring, policy).await?;
        tokio::time::sleep(Duration::from_secs(5)).await;
        calm.push(load::claim(store.clone(), PRODUCERS, arguments.claims).await?);
        report("nothing expires", PRODUCERS, &calm);
        shift.advance(TTL + Duration::from_mins(1));
        expiring.push(load::claim(store.clone(), PRODUCERS, arguments.claims).await?);
        report("records expire", PRODUCERS, &expiring);
        println!("  {}", left(&store, arguments.expiring).await?);
        drop(store);
        std::fs::remove_dir_all(&path)?;
    }
    let ratio = median_p99(&expiring) / median_p99(&calm);
    Ok(vec![Line {
        what: format!("claim p99 while {} records expire, against without", arguments.expiring),
        value: format!("{ratio:.2} x"),
        asked: "at most 2 x",
        reached: ratio <= 2.0,
    }])
}

/// How much of the sweep fell into the measurement.
async fn left(store: &EmbeddedStore, records: u64) -> anyhow::Result<String> {
    let mut deleted = 0;
    loop {
        let swept = store.sweep(usize::MAX).await?;
        deleted += swept.deleted as u64;
        if !swept.more {
            break;
        }
    }
    Ok(format!("{} of {records} were swept while claims ran", records.saturating_sub(deleted)))
}
