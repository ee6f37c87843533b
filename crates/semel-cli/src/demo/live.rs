//! The interactive demo: a page of instructions, and a line that shows what happens.

use std::time::Duration;

use anyhow::Context as _;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::stage::Stage;
use super::tally::Tally;
use super::{client, instructions, screen};
use crate::paint::Paint;
use crate::signals::Signals;
use screen::Screen;

const TICK: Duration = Duration::from_millis(200);
/// A gateway that dies again within this time is restarted after a pause.
const REST: Duration = Duration::from_secs(1);
/// Starts in a row that may fail.
const FAILURES_MAX: u32 = 5;

/// Serves until a signal stops it.
pub(super) async fn play(stage: &mut Stage, signals: &mut Signals) -> anyhow::Result<()> {
    let paint = Paint::for_stdout();
    screen::write(&instructions::page(stage, paint));
    let (mut screen, mut tally) = (Screen::new(), Tally::default());
    let outcome = tokio::select! {
        outcome = show(stage, &mut screen, &mut tally, paint) => outcome,
        _ = signals.end() => Ok(()),
    };
    screen.finish();
    screen.note(&format!("\n{}", paint.bold("in the end")));
    screen.note(&format!("  the gateway:  {tally}"));
    screen.note(&format!("  the ledger:   {}", stage.payments.totals()));
    screen.note(
        &paint.dim(&format!("  the log:      {}/gateway.log", stage.plan.directory.display())),
    );
    outcome
}

/// Keeps the line up to date, and the gateway alive; ends only if that cannot be done.
async fn show(
    stage: &mut Stage,
    screen: &mut Screen,
    tally: &mut Tally,
    paint: Paint,
) -> anyhow::Result<()> {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            _ = tick.tick() => {
                look(stage, tally).await;
                screen.update(format!("  {tally}  |  ledger: {}", stage.payments.totals()));
            }
            status = stage.gateway.died() => {
                tally.carry_over();
                let how = status.map(|status| format!(" ({status})")).unwrap_or_default();
                screen.note(&paint.notable(&format!("  the gateway died{how}")));
                revive(stage).await?;
                let id = stage.gateway.id;
                screen.note(&paint.good(&format!("  the gateway is back, as process {id}")));
            }
        }
    }
}

async fn look(stage: &Stage, tally: &mut Tally) {
    // A gateway that is dying does not answer: the last numbers stand.
    if let Ok(Ok(answer)) = timeout(TICK * 5, client::get(stage.plan.admin, "/metrics")).await {
        tally.read(&answer.body);
    }
}

async fn revive(stage: &mut Stage) -> anyhow::Result<()> {
    for _ in 1..FAILURES_MAX {
        if stage.restart().await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(REST).await;
    }
    stage.restart().await.context("the gateway does not come back")
}
