//! The scenes of the tour.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use tokio::time::timeout;

use super::{Tour, say};
use crate::demo::client::{self, Answer};
use crate::demo::payments::Behaviour;

/// Long enough for a gateway to be killed in the middle of it.
const SLOW: Duration = Duration::from_secs(1);

pub(super) async fn play(tour: &mut Tour<'_>) -> anyhow::Result<()> {
    tour.charge_and_retry().await.context("scene 1")?;
    tour.another_amount().await.context("scene 2")?;
    tour.fifty_at_once().await.context("scene 3")?;
    tour.failure().await.context("scene 4")?;
    tour.refund().await.context("scene 5")?;
    tour.killed_after_a_charge().await.context("scene 6")?;
    tour.killed_during_a_charge().await.context("scene 7")
}

// === impl Tour ===

impl Tour<'_> {
    async fn charge_and_retry(&mut self) -> anyhow::Result<()> {
        self.title("1  a charge, and its retry");
        let order = self.order("book", 2_000, "ada");
        let first = self.charge(&order).await?;
        self.show("first charge", &first);
        expect(&first, 201, false)?;
        let location = first.header("location").context("no Location")?;
        ensure!(location == "/v1/charges/ch_1", "Location: {location}");
        let retry = self.charge(&order).await?;
        self.show("the same, retried", &retry);
        expect(&retry, 201, true)?;
        same(&first, &retry)?;
        self.charged_once(&order).await
    }

    async fn another_amount(&mut self) -> anyhow::Result<()> {
        self.title("2  the same key for another amount");
        let changed = self.order("book", 9_900, "ada");
        let answer = self.charge(&changed).await?;
        self.show("amount changed to 99.00", &answer);
        expect(&answer, 409, false)?;
        ensure!(answer.body.contains("idempotency_payload_mismatch"), "{}", answer.body);
        self.charged_once(&changed).await
    }

    async fn fifty_at_once(&mut self) -> anyhow::Result<()> {
        self.title("3  fifty clients press the button at once");
        let order = self.order("bike", 50_000, "grace");
        let gateway = self.stage.gateway_address();
        let clients: Vec<_> = (0..50)
            .map(|_| {
                let (key, body) = (order.key.clone(), order.body.clone());
                tokio::spawn(async move { client::post(gateway, "/v1/charges", &key, &body).await })
            })
            .collect();
        let mut answers = Vec::new();
        for client in clients {
            answers.push(client.await??);
        }
        for answer in &answers {
            expect(answer, 201, answer.is_replayed())?;
            same(&answers[0], answer)?;
        }
        let replayed = answers.iter().filter(|answer| answer.is_replayed()).count();
        ensure!(replayed == 49, "{replayed} of fifty were replayed");
        (self.executed, self.replayed) = (self.executed + 1, self.replayed + 49);
        let counts = self.paint.good("1 executed, 49 replayed");
        say(&format!("  {:<28} 201 {counts}", "fifty answers, all the same"));
        self.charged_once(&order).await
    }

    async fn failure(&mut self) -> anyhow::Result<()> {
        self.title("4  the API fails, and nothing was charged");
        let order = self.order("bench", 7_000, "barbara");
        let behaviour = self.stage.payments.behaviour();
        self.stage.payments.set_behaviour(Behaviour { failure_rate: 1.0, ..behaviour });
        let failed = self.charge(&order).await?;
        self.stage.payments.set_behaviour(behaviour);
        ensure!(failed.status == 500, "{}", failed.status);
        let word = self.paint.notable("released");
        say(&format!("  {:<28} 500 {word}  {}", "the bank is down", self.paint.dim("bank_down")));
        let retry = self.charge(&order).await?;
        self.show("retried", &retry);
        expect(&retry, 201, false)?;
        self.charged_once(&order).await
    }

    async fn refund(&mut self) -> anyhow::Result<()> {
        self.title("5  a refund, and its retry");
        let (gateway, key) = (self.stage.gateway_address(), format!("refund-{}", self.stage.run));
        let refund = || client::post(gateway, "/v1/charges/ch_1/refunds", &key, "");
        let first = refund().await?;
        self.show("refund of the first charge", &first);
        expect(&first, 201, false)?;
        let retry = refund().await?;
        self.show("the same, retried", &retry);
        expect(&retry, 201, true)?;
        same(&first, &retry)
    }

    async fn killed_after_a_charge(&mut self) -> anyhow::Result<()> {
        self.title("6  kill -9 after a charge");
        let order = self.order("boots", 12_000, "linus");
        let first = self.charge(&order).await?;
        self.show("charge", &first);
        expect(&first, 201, false)?;
        self.kill_and_restart().await?;
        let retry = self.charge(&order).await?;
        self.show("restarted, retried", &retry);
        expect(&retry, 201, true)?;
        same(&first, &retry)?;
        self.charged_once(&order).await
    }

    async fn killed_during_a_charge(&mut self) -> anyhow::Result<()> {
        self.title("7  kill -9 in the middle of a charge");
        let order = self.order("boat", 90_000, "edsger");
        let behaviour = self.stage.payments.behaviour();
        self.stage
            .payments
            .set_behaviour(Behaviour { delay: SLOW.max(behaviour.delay), ..behaviour });
        let mut begun = self.stage.payments.begun();
        begun.mark_unchanged();
        let (gateway, key, body) =
            (self.stage.gateway_address(), order.key.clone(), order.body.clone());
        let first =
            tokio::spawn(async move { client::post(gateway, "/v1/charges", &key, &body).await });
        timeout(SLOW * 20, begun.changed()).await.context("the charge does not begin")??;
        self.kill_and_restart().await?;
        self.stage.payments.set_behaviour(behaviour);
        ensure!(first.await?.is_err(), "a killed gateway answered");
        let charges = self.charges_of(order.customer).await?;
        ensure!(charges == 0, "the charge was to be cut off, and was made");
        let lease = self.paint.dim("waits until the dead one's lease of 5 s has run out ...");
        say(&format!("  {:<28} {lease}", "restarted, retried"));
        let retry = self.charge(&order).await?;
        self.show("", &retry);
        expect(&retry, 201, false)?;
        self.charged_once(&order).await
    }

    async fn kill_and_restart(&mut self) -> anyhow::Result<()> {
        let id = self.stage.gateway.id;
        self.stage.gateway.kill().await?;
        say(&format!("  {}", self.paint.notable(&format!("kill -9 {id}"))));
        self.stage.restart().await
    }
}

fn expect(answer: &Answer, status: u16, replayed: bool) -> anyhow::Result<()> {
    let is = (answer.status.as_u16(), answer.is_replayed());
    ensure!(is == (status, replayed), "unexpected answer: {answer:?}");
    Ok(())
}

fn same(first: &Answer, other: &Answer) -> anyhow::Result<()> {
    let parts = |answer: &Answer| (answer.body.clone(), answer.headers.get("location").cloned());
    ensure!(parts(first) == parts(other), "they differ: {first:?} and {other:?}");
    Ok(())
}
