//! A process that charges an order and is killed at a chosen moment.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};
use clap::ValueEnum;
use semel::core::{Outcome, Reply};

use super::bank::Bank;
use super::shop::Shop;

/// Who is killed, and when.
#[derive(clap::Args)]
pub(crate) struct VictimArguments {
    #[arg(long, hide = true, requires = "die")]
    order: Option<String>,
    #[arg(long, hide = true, requires = "order")]
    die: Option<Moment>,
}

pub(crate) struct Victim {
    order: String,
    moment: Moment,
}

/// When it dies.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Moment {
    /// After the outcome was recorded, before the client heard of it.
    BeforeReply,
    /// After the claim, before the card was charged.
    BeforeCharge,
}

pub(crate) const AMOUNT: u32 = 30;

// === impl VictimArguments ===

impl VictimArguments {
    pub(crate) fn role(&self) -> Option<Victim> {
        Some(Victim { order: self.order.clone()?, moment: self.die? })
    }
}

/// The victim's side: works up to the moment, says so, and waits for its end.
pub(crate) async fn play(directory: &Path, victim: &Victim) -> anyhow::Result<()> {
    let shop = Shop::open(directory, &Bank::open(directory)?)?;
    match victim.moment {
        Moment::BeforeReply => {
            shop.charge(&victim.order, AMOUNT).await?;
            say_ready();
        }
        Moment::BeforeCharge => {
            let work = || async {
                say_ready();
                std::future::pending::<()>().await;
                Outcome::Completed(Reply::default())
            };
            shop.work_once(&victim.order, AMOUNT, work).await?;
        }
    }
    std::future::pending().await
}

fn say_ready() {
    println!("ready");
    // Nobody reads it if the demo is gone; then there is nobody to be killed by either.
    let _ = std::io::stdout().flush();
}

/// The demo's side: starts a victim, waits for its moment, and kills it with no chance to clean up.
pub(crate) fn kill_at(directory: &Path, order: &str, moment: Moment) -> anyhow::Result<()> {
    let name = moment.to_possible_value().context("every moment has a name")?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["demo", "--order", order, "--die", name.get_name(), "--directory"])
        .arg(directory)
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start a second process")?;
    let mut said = String::new();
    if let Some(stdout) = child.stdout.take() {
        BufReader::new(stdout).read_line(&mut said)?;
    }
    child.kill()?;
    child.wait()?;
    ensure!(said.trim() == "ready", "the second process did not get to its moment");
    Ok(())
}
