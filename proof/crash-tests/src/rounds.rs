//! Crashes, many times over.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rand::RngExt as _;
use semel_embedded::{Durability, Options};
use tokio::time::Instant;

use crate::image::Mount;
use crate::ledger::Ledger;
use crate::victim::Victim;
use crate::work::{Files, MEMTABLE_BYTES, Watch, Work};

/// What many crashes came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// How often it crashed.
    pub crashes: usize,
    /// How many records were acknowledged.
    pub acknowledged: usize,
    /// How many of them were lost or wrong.
    pub lost: usize,
    /// What the engine did in the processes that crashed. What it did where their work was verified
    /// does not count.
    pub work: Work,
    /// How many kills were aimed at the appearance of a table, and came within [`NEAR`] of it.
    pub at_tables: usize,
    /// How many kills left a table that was not finished.
    pub unfinished: usize,
    /// How many kills were aimed at the appearance of a log, and came within [`NEAR`] of it.
    pub at_rotations: usize,
}

/// How soon after the appearance of a file a kill is one in the midst of what follows it.
pub const NEAR: Duration = Duration::from_millis(50);

/// When a writer is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// While it opens the store.
    Opening,
    /// At any moment of its work.
    Anywhere,
    /// When the file of a table appears: it is being written then.
    Table,
    /// When the file of a log appears.
    Rotation,
}

// === impl Tally ===

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Work { tables, merged, rotations } = self.work;
        write!(f, "{tables} tables written, {merged} merged, {rotations} logs rotated")
    }
}

// === impl Aim ===

impl Aim {
    fn of(round: u32) -> Self {
        match round {
            round if round % 10 == 6 => Self::Rotation,
            round if round % 4 == 1 => Self::Table,
            round if round % 4 == 3 => Self::Opening,
            _ => Self::Anywhere,
        }
    }

    /// Waits for the moment, and names a time at which the file that it is about was not there yet.
    async fn wait(
        self,
        victim: &mut Victim,
        ledger: &mut Ledger,
        store: &Path,
        watch: &mut Watch,
    ) -> anyhow::Result<Option<Instant>> {
        if self != Self::Opening {
            let lines = rand::rng().random_range(400..1_800);
            victim.wait_for(lines, ledger)?;
        }
        let (before, longest) = match self {
            Self::Opening | Self::Anywhere => (None, 30_000),
            Self::Table => (Some(appearance(store, watch, Files::newest_table).await?), 3_000),
            Self::Rotation => (Some(appearance(store, watch, Files::newest_log).await?), 3_000),
        };
        let moment = Duration::from_micros(rand::rng().random_range(0..longest));
        tokio::time::sleep(moment).await;
        Ok(before)
    }
}

/// Waits until a file appears that is newer than the newest of now. Returns when it was last missing.
async fn appearance(
    store: &Path,
    watch: &mut Watch,
    newest: impl Fn(&Files) -> Option<u64>,
) -> anyhow::Result<Instant> {
    /// As often as a timer allows: a table is written in a few of these.
    const LOOK_EVERY: Duration = Duration::from_millis(1);
    const LONGEST: Duration = Duration::from_mins(1);
    let (before, began) = (newest(watch.look(store)), Instant::now());
    let mut missing = began;
    loop {
        let looked = Instant::now();
        if newest(watch.look(store)) > before {
            return Ok(missing);
        }
        missing = looked;
        ensure!(began.elapsed() < LONGEST, "the writer writes its log alone");
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Kills a writer on the same store `rounds` times: at random moments from before it has opened the
/// store to well into its work, while it writes a table, and when it has begun a new log. Verifies
/// after each kill all that was ever acknowledged in the last rounds. Fails at the first loss.
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
    for round in 0..rounds {
        let mut ledger = Ledger::default();
        let left = strike(program, store, durability, round, &mut ledger, &mut tally).await?;
        tally.crashes += 1;
        tally.acknowledged += ledger.len();
        ledgers.push(ledger);
        if ledgers.len() > REMEMBERED {
            ledgers.remove(0);
        }
        let opened = options(store, durability).open();
        let opened = opened.with_context(|| format!("opening after kill {round}"))?;
        // The engine removes what is no part of it; soon after, it may merge.
        let kept = Files::look(store);
        let unfinished = left.newest_table().is_some_and(|newest| !kept.has_table(newest));
        tally.unfinished += usize::from(unfinished);
        for ledger in &ledgers {
            ledger.verify(&opened).await.with_context(|| format!("after kill {round}"))?;
        }
        progress(round);
    }
    Ok(tally)
}

/// Kills one writer, and returns what files it left.
async fn strike(
    program: &Path,
    store: &Path,
    durability: Durability,
    round: u32,
    ledger: &mut Ledger,
    tally: &mut Tally,
) -> anyhow::Result<Files> {
    let mut watch = Watch::of(store);
    let mut victim = Victim::start(program, store, durability, round)?;
    let aim = Aim::of(round);
    let missing = aim.wait(&mut victim, ledger, store, &mut watch).await;
    let missing = missing.with_context(|| format!("waiting for kill {round}, {aim:?}"))?;
    let killed = victim.kill(ledger)?;
    watch.look(store);
    tally.work += watch.work();
    let is_near = missing.is_some_and(|missing| killed.duration_since(missing) <= NEAR);
    tally.at_tables += usize::from(is_near && aim == Aim::Table);
    tally.at_rotations += usize::from(is_near && aim == Aim::Rotation);
    Ok(watch.files().clone())
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
    /// The number of images of a device before it is replaced.
    const IMAGES_PER_DEVICE: u32 = 10;
    let mut tally = Tally::default();
    for first in (0..images).step_by(IMAGES_PER_DEVICE as usize) {
        let device = Mount::ext4(&scratch.join(format!("device-{first}")), 512 << 20)?;
        let mut ledger = Ledger::default();
        let mut watch = Watch::default();
        let store = device.path().join("store");
        let mut victim = Victim::start(program, &store, durability, first)?;
        for image in first..images.min(first + IMAGES_PER_DEVICE) {
            // Ten of these fill more than one log.
            let lines = rand::rng().random_range(400..3_200);
            victim.wait_for(lines, &mut ledger)?;
            victim.stop()?;
            // Lines that were printed before the stop were acknowledged before the cut.
            victim.take_down(&mut ledger)?;
            let copy = scratch.join(format!("image-{image}"));
            device.cut(&copy)?;
            watch.look(&store);
            tally.crashes += 1;
            tally.acknowledged += ledger.len();
            tally.lost += lost(&copy, durability, &ledger).await?;
            std::fs::remove_file(&copy)?;
            victim.go_on()?;
            progress(image);
        }
        ensure!(!ledger.is_empty(), "the writer wrote nothing");
        tally.work += watch.work();
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
