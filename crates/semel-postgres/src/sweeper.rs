//! Deletes expired records in the background.
//!
//! Every node tries; the database lets one work at a time. Expired records are invisible long
//! before (`decide` says so), so a sweep only gives space back and can take its time: it goes in
//! small steps and rests three times as long as each took.

use std::sync::{Arc, Weak};
use std::time::Duration;

use semel_store::StoreError;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::lanes::Lanes;

/// How many records one step deletes: some milliseconds' worth.
const STEP: usize = 500;

/// The task that sweeps; ends when dropped.
#[derive(Debug)]
pub(crate) struct Sweeper(AbortHandle);

// === impl Sweeper ===

impl Sweeper {
    pub(crate) fn start(lanes: &Arc<Lanes>, rest: Duration) -> Self {
        Self(tokio::spawn(run(Arc::downgrade(lanes), rest)).abort_handle())
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn run(lanes: Weak<Lanes>, rest: Duration) {
    loop {
        // Not all nodes at the same moment.
        sleep(rest.mul_f64(rand::random_range(0.75..1.25))).await;
        let Some(lanes) = lanes.upgrade() else {
            return;
        };
        if let Err(error) = sweep(&lanes).await {
            tracing::warn!(%error, "expired records were not deleted; they will be later");
        }
    }
}

async fn sweep(lanes: &Lanes) -> Result<(), StoreError> {
    loop {
        let began = Instant::now();
        if !lanes.sweep(STEP).await?.more {
            return Ok(());
        }
        sleep(began.elapsed() * 3).await;
    }
}
