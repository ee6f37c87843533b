//! What protection adds to a single request, and what the device takes for one sync.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cases::{PROTECTED, UNPROTECTED};
use crate::figures::{Line, median, millis};
use crate::http::rounds::Stage;

const SYNCS: u64 = 500;
const RECORD: [u8; 500] = [7; 500];

/// Milliseconds, one of each per round.
#[derive(Default)]
struct Samples {
    without: Vec<f64>,
    with: Vec<f64>,
    append: Vec<f64>,
    overwrite: Vec<f64>,
}

/// One connection, in turns with and without protection, and syncs between them.
pub(crate) fn measure(
    stage: &mut Stage,
    scratch: &Path,
    rounds: usize,
    seconds: u64,
) -> anyhow::Result<Vec<Line>> {
    println!("\none connection");
    let mut samples = Samples::default();
    for _ in 0..rounds {
        let without = stage.round(&UNPROTECTED, 1, seconds)?;
        samples.append.push(append(scratch)?);
        let with = stage.round(&PROTECTED, 1, seconds)?;
        samples.overwrite.push(overwrite(scratch)?);
        samples.without.extend(without.map(|sample| in_ms(sample.p50)));
        samples.with.extend(with.map(|sample| in_ms(sample.p50)));
    }
    Ok(samples.lines())
}

// === impl Samples ===

impl Samples {
    fn lines(self) -> Vec<Line> {
        let (without, with) = (median(self.without), median(self.with));
        let (append, overwrite) = (median(self.append), median(self.overwrite));
        let added = with - without;
        println!("p50 {with:.2} ms with protection, {without:.2} ms without");
        println!("fdatasync p50: {append:.2} ms appending, {overwrite:.2} ms into written blocks");
        let times = |what: &str, sync: f64| Line {
            what: format!("the same, against the p50 of fdatasync {what} ({sync:.2} ms)"),
            value: format!("{:.2} x", added / sync),
            asked: "at most 3 x".into(),
            reached: added / sync <= 3.0,
        };
        vec![
            Line {
                what: "p50 that a first execution adds, `power`, 1 connection".into(),
                value: format!("{added:.2} ms"),
                asked: "at most 2 ms".into(),
                reached: added <= 2.0,
            },
            times("after appending 500 bytes", append),
            times("after 500 bytes into written blocks", overwrite),
        ]
    }
}

/// A file that grows: each sync writes its new length too.
fn append(scratch: &Path) -> anyhow::Result<f64> {
    let mut file = File::create(scratch.join("append"))?;
    syncs("appending", |_| {
        file.write_all(&RECORD)?;
        file.sync_data()
    })
}

/// A file with blocks that were all written before: about the least that the device can take.
fn overwrite(scratch: &Path) -> anyhow::Result<f64> {
    let mut file = File::create(scratch.join("overwrite"))?;
    let record = RECORD.len() as u64;
    let length = usize::try_from(SYNCS * record)?;
    file.write_all(&vec![0; length])?;
    file.sync_all()?;
    syncs("into written blocks", |index| {
        file.write_all_at(&RECORD, index * record)?;
        file.sync_data()
    })
}

fn syncs(what: &str, mut sync: impl FnMut(u64) -> std::io::Result<()>) -> anyhow::Result<f64> {
    let mut took = Vec::new();
    for index in 0..SYNCS {
        let started = Instant::now();
        sync(index)?;
        took.push(in_ms(started.elapsed()));
    }
    let p50 = median(took);
    println!(
        "{:<44} p50 {}",
        format!("fdatasync, {what}"),
        millis(Duration::from_secs_f64(p50 / 1e3))
    );
    Ok(p50)
}

fn in_ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
