//! The shop: takes orders over an unreliable network, so it charges through Semel.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use semel::core::{Fingerprint, InFlight, Key, Outcome, Policy, RecordId, Reply, Scope};
use semel::embedded::{EmbeddedStore, Options};
use semel::{Answer, Engine};

use super::bank::Bank;

/// Short, so that the demo need not wait for long after a crash.
const LEASE: Duration = Duration::from_secs(1);

pub(crate) struct Shop {
    engine: Engine<EmbeddedStore>,
    bank: Bank,
}

// === impl Shop ===

impl Shop {
    pub(crate) fn open(directory: &Path, bank: &Bank) -> anyhow::Result<Self> {
        let store = Options::new(directory.join("store")).open().context("the demo's store")?;
        Ok(Self { engine: Engine::new(store), bank: bank.clone() })
    }

    /// Charges an order once, however often it is asked to.
    pub(crate) async fn charge(&self, order: &str, amount: u32) -> anyhow::Result<Answer> {
        let bank = self.bank.clone();
        let order_name = order.to_owned();
        self.work_once(order, amount, move || async move {
            match bank.charge(&order_name, amount) {
                Ok(receipt) => Outcome::Completed(Reply::new(receipt)),
                Err(error) => Outcome::FailedForNow(Reply::new(error.to_string())),
            }
        })
        .await
    }

    /// The same around any work.
    pub(crate) async fn work_once<F>(
        &self,
        order: &str,
        amount: u32,
        work: impl FnOnce() -> F + Send + 'static,
    ) -> anyhow::Result<Answer>
    where
        F: Future<Output = Outcome> + Send + 'static,
    {
        let scope = Scope::new([("who", "demo customer"), ("what", "charge")]);
        let id = RecordId::new("demo", &scope, &Key::parse(order)?);
        let fingerprint = Fingerprint::new([("amount", amount.to_string())]);
        let policy = Policy::builder()
            .lease(LEASE)
            .in_flight(InFlight::Wait(Duration::from_secs(10)))
            .build()?;
        let attempt = self.engine.attempt(id, fingerprint);
        Ok(self.engine.once(attempt, &policy, |_execution| work()).await?)
    }

    /// Finishes what is running and gives the store up.
    pub(crate) async fn close(self) -> anyhow::Result<()> {
        let report = self.engine.shutdown(Duration::from_secs(10)).await;
        anyhow::ensure!(report.left == 0, "{} charges are still running", report.left);
        Ok(())
    }
}
