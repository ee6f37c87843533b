//! What the demo shows, scene by scene.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use semel::Answer;
use semel::core::Reply;

use super::bank::Bank;
use super::crash::{self, Moment};
use super::shop::Shop;
use crate::paint::Paint;

/// Counts what the shop did.
#[derive(Default)]
struct Tally {
    executed: usize,
    replayed: usize,
    refused: usize,
}

pub(crate) async fn play(directory: &Path) -> anyhow::Result<()> {
    let stage = Stage {
        directory,
        bank: Bank::open(directory)?,
        paint: Paint::for_stdout(),
        // Orders of their own, so that the demo can be played again on the same store.
        run: format!("{:04x}", rand::random::<u16>()),
    };
    let mut tally = Tally::default();
    println!("{}", stage.paint.bold("semel demo: a shop, a bank, and clients that retry"));
    println!("store and ledger in {}\n", directory.display());
    stage.charge_and_retry(&mut tally).await?;
    stage.fifty_at_once(&mut tally).await?;
    stage.killed_before_its_reply(&mut tally).await?;
    stage.killed_before_its_charge(&mut tally).await?;
    let Tally { executed, replayed, refused } = tally;
    println!("\n{}", stage.paint.bold("tally"));
    println!(
        "  {executed} executed, {replayed} replayed, {refused} refused; no order was charged twice"
    );
    println!("{}", stage.paint.dim(&format!("  the ledger: {}/ledger.txt", directory.display())));
    Ok(())
}

struct Stage<'a> {
    directory: &'a Path,
    bank: Bank,
    paint: Paint,
    run: String,
}

// === impl Stage ===

impl Stage<'_> {
    async fn charge_and_retry(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let order = self.order("book");
        let shop = self.shop()?;
        self.title("1  a charge, and its retry");
        let first = shop.charge(&order, 20).await?;
        self.line("first charge", &first, tally);
        let retry = shop.charge(&order, 20).await?;
        self.line("the same, retried", &retry, tally);
        ensure!(first.reply() == retry.reply(), "the retry got another answer");
        self.title("2  the same key for another amount");
        let changed = shop.charge(&order, 2_000).await?;
        self.line("amount changed to 2000", &changed, tally);
        ensure!(changed == Answer::Mismatch, "another request was answered {changed:?}");
        shop.close().await?;
        self.charged_once(&order)
    }

    async fn fifty_at_once(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let order = self.order("bike");
        let shop = Arc::new(self.shop()?);
        self.title("3  fifty clients press the button at once");
        let clients: Vec<_> = (0..50)
            .map(|_| {
                let (shop, order) = (Arc::clone(&shop), order.clone());
                tokio::spawn(async move { shop.charge(&order, 500).await })
            })
            .collect();
        let mut answers = Vec::new();
        for client in clients {
            answers.push(client.await??);
        }
        let executed = answers.iter().filter(|a| matches!(a, Answer::Executed { .. })).count();
        let replayed = answers.iter().filter(|a| matches!(a, Answer::Replayed { .. })).count();
        println!(
            "  fifty answers, all the same   {}",
            self.paint.good(&format!("{executed} executed, {replayed} replayed"))
        );
        ensure!(answers.iter().all(|a| a.reply() == answers[0].reply()), "they differ");
        tally.executed += executed;
        tally.replayed += replayed;
        if let Ok(shop) = Arc::try_unwrap(shop) {
            shop.close().await?;
        }
        self.charged_once(&order)
    }

    async fn killed_before_its_reply(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let order = self.order("boat");
        self.title("4  kill -9 after the charge, before the client hears of it");
        crash::kill_at(self.directory, &order, Moment::BeforeReply)?;
        tally.executed += 1;
        let shop = self.shop()?;
        let retry = shop.charge(&order, crash::AMOUNT).await?;
        self.line("restarted, retried", &retry, tally);
        shop.close().await?;
        self.charged_once(&order)
    }

    async fn killed_before_its_charge(&self, tally: &mut Tally) -> anyhow::Result<()> {
        let order = self.order("boots");
        self.title("5  kill -9 after the claim, before the charge");
        crash::kill_at(self.directory, &order, Moment::BeforeCharge)?;
        let shop = self.shop()?;
        println!(
            "  restarted, retried            {}",
            self.paint.dim("waits for the dead one's lease ...")
        );
        let retry = shop.charge(&order, crash::AMOUNT).await?;
        self.line("", &retry, tally);
        shop.close().await?;
        self.charged_once(&order)
    }

    fn shop(&self) -> anyhow::Result<Shop> {
        Shop::open(self.directory, &self.bank)
    }

    fn order(&self, thing: &str) -> String {
        format!("order-{thing}-{}", self.run)
    }

    fn title(&self, text: &str) {
        println!("{}", self.paint.bold(text));
    }

    fn line(&self, what: &str, answer: &Answer, tally: &mut Tally) {
        let (word, count) = match answer {
            Answer::Executed { fence, .. } => {
                (self.paint.good(&format!("executed, fence {fence}")), &mut tally.executed)
            }
            Answer::Replayed { .. } => (self.paint.good("replayed"), &mut tally.replayed),
            Answer::Mismatch => (
                self.paint.notable("refused: the key belongs to another request"),
                &mut tally.refused,
            ),
            other => (self.paint.notable(&format!("{other:?}")), &mut tally.refused),
        };
        *count += 1;
        let reply = answer.reply().map(Reply::bytes).map(|bytes| String::from_utf8_lossy(bytes));
        println!("  {what:<29} {word}  {}", self.paint.dim(&reply.unwrap_or_default()));
    }

    fn charged_once(&self, order: &str) -> anyhow::Result<()> {
        let charges = self.bank.charges(order).context("the bank's ledger")?;
        ensure!(charges == 1, "{order} was charged {charges} times");
        println!("  {}", self.paint.dim("the bank's ledger: charged once"));
        Ok(())
    }
}
