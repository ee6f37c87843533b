//! The gateway with ever more connections, and ever larger bodies. nginx as a plain proxy stands beside
//! it, so that what the machine and the upstream cost can be told apart from protection.

use std::path::Path;

use anyhow::Context as _;

use super::{Curve, Limits, Question};
use crate::field::entrant::{Entrant, Ground};
use crate::field::roster::{GATEWAY_EMBEDDED, ROSTER};
use crate::http::load::{BODY_BYTES, Load, Shot, Wrk};
use crate::http::rounds::wait_until_quiet;
use crate::http::stop;
use crate::http::tools::Tools;

const CONNECTIONS: [usize; 7] = [1, 3, 10, 30, 100, 300, 1_000];
const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const USUAL_CONNECTIONS: usize = 64;
/// What is measured at each size.
const CASES: [(&str, Load, usize); 3] = [
    ("nginx, passing on", Load::First, 0),
    ("gateway, first executions", Load::First, 1),
    ("gateway, replays", Load::Replay, 1),
];

struct Course<'a> {
    subjects: [Entrant; 2],
    wrk: Wrk,
    limits: &'a Limits,
    run: u64,
}

pub(super) fn seconds(limits: &Limits) -> f64 {
    let cases = (CONNECTIONS.len() + SIZES.len()) * CASES.len();
    cases as f64 * limits.rounds as f64 * (limits.seconds as f64 + 0.6) + 10.0
}

pub(super) fn measure(
    limits: &Limits,
    tools: &Tools,
    scratch: &Path,
) -> anyhow::Result<Vec<Question>> {
    let ground = Ground::prepare(&[], tools, scratch)?;
    let start = |name: &str| {
        let entry = ROSTER.iter().find(|entry| entry.name == name).context("no such subject")?;
        Entrant::start(entry, &ground)
    };
    let subjects = [start("nginx, plain proxy")?, start(GATEWAY_EMBEDDED)?];
    let wrk = Wrk::new(tools.wrk.clone(), scratch);
    let mut course = Course { subjects, wrk, limits, run: 0 };
    for bytes in SIZES.into_iter().chain([BODY_BYTES]) {
        course.subjects[1].subject.settle(bytes)?;
    }
    let connections = CONNECTIONS.map(|connections| (connections, connections, BODY_BYTES));
    let sizes = SIZES.map(|bytes| (bytes, USUAL_CONNECTIONS, bytes));
    Ok(vec![
        Question {
            slug: "connections",
            title: "Connections through the gateway (embedded, power)",
            x: "connections",
            curves: course.curves(&connections)?,
        },
        Question {
            slug: "bodies",
            title: "Bodies through the gateway (embedded, power; 64 connections)",
            x: "bytes of the request's body, and of the answer's",
            curves: course.curves(&sizes)?,
        },
    ])
}

// === impl Course ===

impl Course<'_> {
    /// All cases at each size: (what the axis has, connections, bytes of a body).
    fn curves(&mut self, sizes: &[(usize, usize, usize)]) -> anyhow::Result<Vec<Curve>> {
        let mut curves = CASES.map(|(name, _, _)| Curve::new(name));
        for &(x, connections, bytes) in sizes {
            let mut rounds = CASES.map(|_| Vec::new());
            for _ in 0..self.limits.rounds {
                for (case, rounds) in CASES.iter().zip(&mut rounds) {
                    rounds.extend(self.round(case.1, case.2, connections, bytes)?);
                }
            }
            for ((curve, rounds), case) in curves.iter_mut().zip(&rounds).zip(CASES) {
                curve.push(x as f64, rounds);
                let last = curve.points.last().map_or(f64::NAN, |point| point.rate);
                println!("{connections:>4} conn {bytes:>7} B  {:<28} {last:>7.0}/s", case.0);
            }
        }
        Ok(Vec::from(curves))
    }

    /// Requests/s and p99 in milliseconds, or nothing if anything failed.
    fn round(
        &mut self,
        load: Load,
        subject: usize,
        connections: usize,
        bytes: usize,
    ) -> anyhow::Result<Option<(f64, f64)>> {
        stop::check()?;
        self.run += 1;
        let seed = format!("key-{}-{}", std::process::id(), self.run);
        let to = self.subjects[subject].subject.address;
        let seconds = self.limits.seconds;
        let shot = Shot { bytes, ..Shot::new(load, to, connections, seconds, &seed) };
        let report = self.wrk.run(&shot)?;
        wait_until_quiet(|| self.subjects.iter().map(Entrant::spent).sum());
        if let Some(fault) = report.fault {
            println!("{connections:>4} conn {bytes:>7} B  NOT COUNTED: {fault}");
            return Ok(None);
        }
        Ok(Some((report.per_second, report.p99.as_secs_f64() * 1e3)))
    }
}
