//! The demo by itself: every scene is played over HTTP and checked.

mod scenes;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::client::{self, Answer};
use super::screen;
use super::stage::Stage;
use crate::paint::Paint;

/// The tour, and what it has seen.
struct Tour<'a> {
    stage: &'a mut Stage,
    paint: Paint,
    executed: usize,
    replayed: usize,
    refused: usize,
}

/// What is asked of the gateway.
struct Order {
    key: String,
    body: String,
    customer: &'static str,
}

pub(super) async fn play(stage: &mut Stage) -> anyhow::Result<()> {
    let (paint, directory) = (Paint::for_stdout(), stage.plan.directory.display().to_string());
    say(&paint.bold("semel demo: a payments API, the gateway in front, and clients that retry"));
    say(&paint.dim(&format!(
        "payments API http://{}, gateway http://{}, files in {directory}\n",
        stage.plan.upstream,
        stage.gateway_address(),
    )));
    // The tour has fixed results, so the API does not fail at random.
    let behaviour = stage.payments.behaviour();
    stage.payments.set_behaviour(super::Behaviour { failure_rate: 0.0, ..behaviour });
    let mut tour = Tour { stage, paint, executed: 0, replayed: 0, refused: 0 };
    scenes::play(&mut tour).await?;
    let Tour { executed, replayed, refused, .. } = tour;
    say(&format!("\n{}", paint.bold("tally")));
    say(&format!("  {executed} executed, {replayed} replayed, {refused} refused"));
    say(&format!("  the ledger: {}; every order once", stage.payments.totals()));
    Ok(())
}

// === impl Tour ===

impl Tour<'_> {
    fn order(&self, thing: &str, amount: u32, customer: &'static str) -> Order {
        Order {
            key: format!("{thing}-{}", self.stage.run),
            body: format!(r#"{{"amount":{amount},"currency":"EUR","customer":"{customer}"}}"#),
            customer,
        }
    }

    async fn charge(&self, order: &Order) -> anyhow::Result<Answer> {
        client::post(self.stage.gateway_address(), "/v1/charges", &order.key, &order.body).await
    }

    /// How many charges the ledger has of a customer: asked of the API, not of the gateway.
    async fn charges_of(&self, customer: &str) -> anyhow::Result<usize> {
        let answer = client::get(self.stage.plan.upstream, "/ledger").await?;
        let ledger: Value = serde_json::from_str(&answer.body).context("the ledger is no JSON")?;
        let entries = ledger["entries"].as_array().context("the ledger has no entries")?;
        let of = |entry: &&Value| entry["kind"] == "charge" && entry["customer"] == customer;
        Ok(entries.iter().filter(of).count())
    }

    async fn charged_once(&self, order: &Order) -> anyhow::Result<()> {
        let charges = self.charges_of(order.customer).await?;
        ensure!(charges == 1, "{} was charged {charges} times", order.customer);
        say(&format!("  {}", self.paint.dim("the ledger: charged once")));
        Ok(())
    }

    fn title(&self, text: &str) {
        say(&self.paint.bold(text));
    }

    /// Shows and counts an answer.
    fn show(&mut self, what: &str, answer: &Answer) {
        let word = if answer.is_replayed() {
            self.replayed += 1;
            self.paint.good("replayed")
        } else if answer.status.is_success() {
            self.executed += 1;
            self.paint.good("executed")
        } else {
            self.refused += 1;
            self.paint.notable("refused ")
        };
        let body = self.paint.dim(&short(&answer.body));
        say(&format!("  {what:<28} {} {word}  {body}", answer.status.as_u16()));
    }
}

/// What of an answer fits on a line: its id, or what is wrong.
fn short(body: &str) -> String {
    let json: Value = serde_json::from_str(body).unwrap_or_default();
    let member = |name: &str| json[name].as_str().map(str::to_owned);
    match (member("id"), json["amount"].as_u64()) {
        (Some(id), Some(amount)) => {
            let fence = json["fence"].as_u64().filter(|fence| *fence > 1);
            let fence = fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
            format!("{id}, {}.{:02} EUR{fence}", amount / 100, amount % 100)
        }
        _ => member("error_code").or_else(|| member("error")).unwrap_or_default(),
    }
}

fn say(line: &str) {
    screen::write(&format!("{line}\n"));
}
