//! Crashes, many times over.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rand::RngExt as _;
use semel_embedded::{Durability, Options};

use crate::image::Mount;
use crate::ledger::Ledger;
use crate::victim::Victim;
use crate::work::{MEMTABLE_BYTES, Work};

/// What many crashes came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often it crashed.
    pub crashes: usize,
    /// How many records were acknowledged.
    pub acknowledged: usize,
    /// How many of them were lost or wrong.
    pub lost: usize,
    /// How many tables the engine wrote.
    pub tables: usize,
    /// How many tables it was seen to have merged into others.
    pub merged: usize,
    /// How many times it rotated its log.
    pub rotations: usize,
}

// === impl Tally ===

impl Tally {
    fn count(&mut self, work: &Work) {
        self.tables += work.tables();
        self.merged += work.merged();
        self.rotations += work.rotations();
    }
}

/// Kills a writer on the same store `rounds` times, at random moments from before it has opened the
/// store to well into its work, and verifies after each kill all that was ever acknowledged in the
/// last rounds. Fails at the first loss.
pub async fn kill(
    program: &Path,
    store: &Path,
    durability: Durability,
    rounds: u32,
    mut progress: impl FnMut(u32),
) -> anyhow::Result<Tally> {
    /// Verifying everything from the start would take longer each round.
    const REMEMBERED: usize = 8;
    let mut tally = Tally::default();
    let mut ledgers: Vec<Ledger> = Vec::new();
    let mut work = Work::default();
    for round in 0..rounds {
        let mut ledger = Ledger::default();
        let mut victim = Victim::start(program, store, durability, round)?;
        // Every fourth dies while it opens the store; the others after some acknowledgements.
        if round % 4 != 3 {
            let lines = rand::rng().random_range(400..2_400);
            victim.wait_for(lines, &mut ledger)?;
        }
        let moment = Duration::from_micros(rand::rng().random_range(0..30_000));
        tokio::time::sleep(moment).await;
        victim.kill(&mut ledger)?;
        work.look(store);
        tally.crashes += 1;
        tally.acknowledged += ledger.len();
        ledgers.push(ledger);
        if ledgers.len() > REMEMBERED {
            ledgers.remove(0);
        }
        let opened = options(store, durability).open();
        let opened = opened.with_context(|| format!("opening after kill {round}"))?;
        for ledger in &ledgers {
            ledger.verify(&opened).await.with_context(|| format!("after kill {round}"))?;
        }
        work.look(store);
        progress(round);
    }
    tally.count(&work);
    Ok(tally)
}

/// Takes `images` images of the device under a running writer, as power cuts leave it, and counts
/// what each of them has lost of what was acknowledged by then.
pub async fn cut_power(
    program: &Path,
    scratch: &Path,
    durability: Durability,
    images: u32,
    mut progress: impl FnMut(u32),
) -> anyhow::Result<Tally> {
    /// Each device serves this many images before it is made anew.
    const IMAGES_PER_DEVICE: u32 = 10;
    let mut tally = Tally::default();
    for first in (0..images).step_by(IMAGES_PER_DEVICE as usize) {
        let device = Mount::ext4(&scratch.join(format!("device-{first}")), 512 << 20)?;
        let mut ledger = Ledger::default();
        let mut work = Work::default();
        let store = device.path().join("store");
        let mut victim = Victim::start(program, &store, durability, first)?;
        for image in first..images.min(first + IMAGES_PER_DEVICE) {
            // Ten of these fill more than one log.
            let lines = rand::rng().random_range(400..3_200);
            victim.wait_for(lines, &mut ledger)?;
            victim.stop()?;
            // What was said before the stop was acknowledged before the cut.
            victim.take_down(&mut ledger)?;
            let copy = scratch.join(format!("image-{image}"));
            device.cut(&copy)?;
            work.look(&store);
            tally.crashes += 1;
            tally.acknowledged += ledger.len();
            tally.lost += lost(&copy, durability, &ledger).await?;
            std::fs::remove_file(&copy)?;
            victim.go_on()?;
            progress(image);
        }
        ensure!(!ledger.is_empty(), "the writer wrote nothing");
        tally.count(&work);
    }
    Ok(tally)
}

async fn lost(image: &Path, durability: Durability, ledger: &Ledger) -> anyhow::Result<usize> {
    let device = Mount::image(image)?;
    match options(&device.path().join("store"), durability).open() {
        Ok(store) => ledger.lost(&store).await,
        // Without syncs, a cut may leave anything; it is no news that all is lost then.
        Err(_) if durability == Durability::Process => Ok(ledger.len()),
        Err(error) => Err(error).context("opening after a power cut"),
    }
}

fn options(store: &Path, durability: Durability) -> Options {
    Options::new(store).durability(durability).sweep_every(None).memtable_bytes(MEMTABLE_BYTES)
}
