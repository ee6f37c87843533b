//! Waiting for conditions, never for a fixed time.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Longer than anything here takes, on the slowest machine.
pub(crate) const LONG: Duration = Duration::from_mins(1);

/// A place in the work at which it waits for the test.
#[derive(Clone, Debug)]
pub(crate) struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    pub(crate) fn new() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }

    /// In the work: reports that it got here, and waits until the gate is open.
    pub(crate) async fn pass(&self) {
        self.reached.add_permits(1);
        let _ = self.open.acquire().await.unwrap();
    }

    /// In the test: waits until one more piece of work has got here.
    pub(crate) async fn reached(&self) {
        timeout(LONG, self.reached.acquire()).await.expect("the gate is reached").unwrap().forget();
    }

    /// Opens the gate for good.
    pub(crate) fn open(&self) {
        self.open.add_permits(1_000);
    }
}

/// Polls a condition until it holds.
pub(crate) async fn until(what: &str, mut asked: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !asked().await {
            sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(timeout(LONG, asking).await.is_ok(), "in vain: {what}");
}
