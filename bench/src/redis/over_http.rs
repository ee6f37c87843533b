//! Gateways and apps on Redis.

use semel_testserver::Redis;

use super::{Arguments, everysec};
use crate::figures::{Line, median};
use crate::http::load::Load;
use crate::http::rounds::{Case, Sample, Stage};
use crate::http::subjects::{Kind, Layer};
use crate::http::tools::Tools;

pub(super) fn run(arguments: &Arguments) -> anyhow::Result<Vec<Line>> {
    let tools = Tools::find(arguments.semel.as_deref(), &[])?;
    let (logged, bare) = (everysec().start()?, Redis::start()?);
    // Before the stage, so that it is removed after the last process has ended.
    let directory = arguments.directory.canonicalize()?;
    let scratch = tempfile::Builder::new().prefix("semel-bench-").tempdir_in(directory)?;
    let cases = cases(logged.port(), bare.port());
    let mut stage = Stage::start(&cases, &tools, scratch.path())?;
    let rounds = arguments.schedule.rounds;
    let seconds = arguments.schedule.seconds * u64::from(arguments.schedule.turns);
    let samples = stage.measure(&cases, rounds, seconds)?;
    // Each is held against the one before it.
    let pairs = cases.chunks_exact(2).zip(samples.chunks_exact(2));
    let mut lines: Vec<Line> = pairs.map(|(cases, samples)| line(&cases[1], samples)).collect();
    lines.push(added(&mut stage, &cases, rounds, seconds)?);
    Ok(lines)
}

fn cases(logged: u16, bare: u16) -> [Case; 6] {
    let case = |what, subject, load, asked| Case { what, subject, load, asked };
    [
        case("first executions, protection off", Kind::Off, Load::First, None),
        case(
            "first executions through the gateway on Redis (everysec), against protection off",
            Kind::Redis(logged),
            Load::First,
            Some(0.50),
        ),
        case("replays, embedded store", Kind::Replays, Load::Replay, None),
        case(
            "replays on Redis with the local cache, against replays on the embedded store",
            Kind::RedisReplays(logged),
            Load::Replay,
            Some(0.90),
        ),
        case(
            "first executions, axum app, idempotent 2.0",
            Kind::App(Layer::Idempotent, bare),
            Load::First,
            None,
        ),
        case(
            "first executions, axum app with Semel's layer (no AOF), against idempotent 2.0",
            Kind::App(Layer::Semel, bare),
            Load::First,
            Some(1.20),
        ),
    ]
}

fn line(case: &Case, samples: &[Vec<Sample>]) -> Line {
    let rate = |samples: &[Sample]| median(samples.iter().map(|sample| sample.per_second));
    let (yardstick, own) = (rate(&samples[0]), rate(&samples[1]));
    let (ratio, asked) = (own / yardstick, case.asked.unwrap_or_default());
    Line {
        what: case.what.to_owned(),
        value: format!("{ratio:.2} ({own:.0}/s, {yardstick:.0}/s)"),
        asked: format!("at least {asked:.2}"),
        reached: ratio >= asked,
    }
}

/// What protection on Redis adds to a single request.
fn added(stage: &mut Stage, cases: &[Case], rounds: usize, seconds: u64) -> anyhow::Result<Line> {
    println!("\none connection");
    let mut p50 = [Vec::new(), Vec::new()];
    for _ in 0..rounds {
        for (case, p50) in cases[..2].iter().zip(&mut p50) {
            let sample = stage.round(case, 1, seconds)?;
            p50.extend(sample.map(|sample| sample.p50.as_secs_f64() * 1e3));
        }
    }
    let [without, with] = p50.map(median);
    let added = with - without;
    Ok(Line {
        what: "p50 that a first execution on Redis (everysec) adds, 1 connection".to_owned(),
        value: format!("{added:.2} ms ({with:.2} ms, {without:.2} ms)"),
        asked: "at most 1 ms".into(),
        reached: added <= 1.0,
    })
}
