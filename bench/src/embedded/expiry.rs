//! Claims while a million records expire.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
        let store = Options::new(&path).clock(clock).sweep_every(None).open()?;
        let policy = Policy::builder().ttl(TTL).build()?;
        fill::settle_many(&store, arguments.expiring, policy).await?;
        // Let the engine come to rest.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let claims = arguments.claims * 3;
        calm.push(load::claim(store.clone(), PRODUCERS, claims).await?);
        report("nothing expires", PRODUCERS, &calm);
        shift.advance(TTL + Duration::from_mins(1));
        let sweep = tokio::spawn(sweep_all(store.clone()));
        let under_way = Arc::new(AtomicBool::new(true));
        let goes_on = Arc::clone(&under_way);
        let claiming = tokio::spawn(load::claim_while(store.clone(), PRODUCERS, move |_| {
            goes_on.load(Ordering::Relaxed)
        }));
        let swept = sweep.await??;
        under_way.store(false, Ordering::Relaxed);
        expiring.push(claiming.await??);
        report("records expire", PRODUCERS, &expiring);
        println!("  {swept} records were swept meanwhile");
        drop(store);
        std::fs::remove_dir_all(&path)?;
    }
    let ratio = median_p99(&expiring) / median_p99(&calm);
    Ok(vec![Line {
        what: format!("claim p99 while {} records expire, against without", arguments.expiring),
        value: format!("{ratio:.2} x"),
        asked: "at most 2 x".into(),
        reached: ratio <= 2.0,
    }])
}

/// Sweeps all that has expired, step after step at the pace of the background sweep.
async fn sweep_all(store: EmbeddedStore) -> anyhow::Result<usize> {
    let mut deleted = 0;
    loop {
        let swept = store.sweep(128).await?;
        deleted += swept.deleted;
        if !swept.more {
            return Ok(deleted);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
