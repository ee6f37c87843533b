//! Deletes expired records in the background.
//!
//! Every node tries; the database lets one work at a time. Expired records are invisible before they are
//! deleted (`decide`), so a sweep only frees space and can take its time: it goes in small steps and
//! pauses three times as long as each took.

use std::sync::{Arc, Weak};
use std::time::Duration;

use semel_store::StoreError;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::pool::Pool;

/// The number of records of one step: some milliseconds' worth.
const STEP: usize = 500;

/// The task that sweeps; ends when dropped.
#[derive(Debug)]
pub(crate) struct Sweeper(AbortHandle);

// === impl Sweeper ===

impl Sweeper {
    pub(crate) fn start(pool: &Arc<Pool>, rest: Duration) -> Self {
        Self(tokio::spawn(run(Arc::downgrade(pool), rest)).abort_handle())
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(pool: Weak<Pool>, rest: Duration) {
    loop {
        // Not all nodes at the same time.
        sleep(rest.mul_f64(rand::random_range(0.75..1.25))).await;
        let Some(pool) = pool.upgrade() else {
            return;
        };
        if let Err(error) = sweep(&pool).await {
            tracing::warn!(%error, "expired records were not deleted; they will be later");
        }
    }
}

async fn sweep(pool: &Pool) -> Result<(), StoreError> {
    loop {
        let began = Instant::now();
        if !pool.sweep(STEP).await?.more {
            return Ok(());
        }
        sleep(began.elapsed() * 3).await;
    }
}
