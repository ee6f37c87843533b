//! What changes when two million records are present.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use semel_embedded::Options;
use tokio::runtime::Runtime;

use super::{Arguments, load, report};
use crate::figures::{Line, median, median_rate};

pub(crate) fn run(
    arguments: &Arguments,
    scratch: &Path,
    runtime: &Runtime,
) -> anyhow::Result<Vec<Line>> {
    let path = scratch.join("full");
    fill_and_kill(&path, arguments.records)?;
    let opening = opening_times(&path, arguments)?;
    let mut lines = vec![opening];
    lines.extend(probe(&path, arguments)?);
    lines.push(claims(&path, arguments, scratch, runtime)?);
    std::fs::remove_dir_all(&path)?;
    Ok(lines)
}

/// Has a child fill the store, and kills it the hard way.
fn fill_and_kill(path: &Path, records: u64) -> anyhow::Result<()> {
    println!("filling a store with {records} records ...");
    let started = Instant::now();
    let mut child = Command::new(std::env::current_exe()?)
        .arg("fill")
        .arg(path)
        .arg(records.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = child.stdout.take().context("the child has no output")?;
    let mut line = String::new();
    BufReader::new(stdout).read_line(&mut line)?;
    child.kill()?;
    child.wait()?;
    ensure!(line.trim() == "filled", "the child said {line:?}");
    println!("filled in {:.0}s, then killed", started.elapsed().as_secs_f64());
    Ok(())
}

/// Opens copies of what the killed child left: opening mends the log, so each round needs its own.
fn opening_times(path: &Path, arguments: &Arguments) -> anyhow::Result<Line> {
    let mut seconds = Vec::new();
    for round in 0..arguments.rounds {
        let copy = path.with_extension(format!("copy-{round}"));
        let status =
            Command::new("cp").arg("-r").arg("--sparse=always").arg(path).arg(&copy).status()?;
        ensure!(status.success(), "cannot copy the store");
        let started = Instant::now();
        let store = Options::new(&copy).open()?;
        seconds.push(started.elapsed().as_secs_f64());
        drop(store);
        std::fs::remove_dir_all(&copy)?;
    }
    let value = median(seconds);
    Ok(Line {
        what: format!("opening with {} records, after kill -9", arguments.records),
        value: format!("{value:.2} s"),
        asked: "at most 3 s".into(),
        reached: value <= 3.0,
    })
}

/// Look-ups and memory, in a process of its own that has done nothing else.
fn probe(path: &Path, arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let (mut engine, mut cache, mut memory) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..arguments.rounds {
        let output = Command::new(std::env::current_exe()?)
            .arg("probe")
            .arg(path)
            .arg(arguments.records.to_string())
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "the probe failed");
        let text = String::from_utf8(output.stdout)?;
        let figures: Vec<f64> =
            text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
        let [from_engine, from_cache, mb] = figures[..] else {
            anyhow::bail!("the probe said {text:?}")
        };
        println!(
            "look-ups {from_engine:.0}/s from the engine, {from_cache:.0}/s from the cache, {mb:.0} MB resident"
        );
        engine.push(from_engine);
        cache.push(from_cache);
        memory.push(mb);
    }
    let (engine, cache, memory) = (median(engine), median(cache), median(memory));
    Ok(vec![
        Line {
            what: "replay look-ups/s, one thread, from the engine".into(),
            value: format!("{engine:.0}"),
            asked: "at least 75,000".into(),
            reached: engine >= 75_000.0,
        },
        Line {
            what: "replay look-ups/s, one thread, from the bounded local cache".into(),
            value: format!("{cache:.0}"),
            asked: "at least 500,000".into(),
            reached: cache >= 500_000.0,
        },
        Line {
            what: format!("resident memory with {} settled records", arguments.records),
            value: format!("{memory:.0} MB"),
            asked: "at most 700 MB".into(),
            reached: memory <= 700.0,
        },
    ])
}

/// Claims on the full store, in turns with an empty one.
fn claims(
    path: &PathBuf,
    arguments: &Arguments,
    scratch: &Path,
    runtime: &Runtime,
) -> anyhow::Result<Line> {
    const PRODUCERS: usize = 64;
    // Opening set the engine to work on what the killed process left; let it come to rest.
    let store = Options::new(path).open()?;
    std::thread::sleep(Duration::from_secs(10));
    let (mut full, mut empty) = (Vec::new(), Vec::new());
    for round in 0..arguments.rounds {
        full.push(runtime.block_on(load::claim(store.clone(), PRODUCERS, arguments.claims))?);
        report("embedded, full", PRODUCERS, &full);
        let fresh = scratch.join(format!("empty-{round}"));
        let store = Options::new(&fresh).open()?;
        empty.push(runtime.block_on(load::claim(store, PRODUCERS, arguments.claims))?);
        report("embedded, empty", PRODUCERS, &empty);
        std::fs::remove_dir_all(&fresh)?;
    }
    let ratio = median_rate(&full) / median_rate(&empty);
    Ok(Line {
        what: format!("claims/s with {} keys present, against an empty store", arguments.records),
        value: format!("{ratio:.2}"),
        asked: "at least 0.70".into(),
        reached: ratio >= 0.70,
    })
}
