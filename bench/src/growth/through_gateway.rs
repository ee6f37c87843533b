//! The gateway with increasing connections and body sizes. nginx as a plain proxy runs beside it, to separate the
//! cost of the machine and the upstream from that of protection.

use std::path::Path;

use anyhow::Context as _;

use super::{Curve, Limits, Question};
use crate::field::entrant::{Entrant, Ground};
use crate::field::roster::{GATEWAY_EMBEDDED, NGINX, ROSTER};
use crate::http::load::{BODY_BYTES, Load, Shot, Wrk};
use crate::http::rounds::{astray, wait_until_quiet};
use crate::http::stop;
use crate::http::tools::Tools;

const CONNECTIONS: [usize; 7] = [1, 3, 10, 30, 100, 300, 1_000];
const SIZES: [usize; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
const USUAL_CONNECTIONS: usize = 64;
/// What is measured at each size: its name, and which of the two subjects gets what load.
const CASES: [(&str, Load, usize); 3] = [
    ("nginx, passing on", Load::First, 0),
    ("gateway, first executions", Load::First, 1),
    ("gateway, replays", Load::Replay, 1),
];

/// Requests/s, and p99 in milliseconds.
type Figures = (f64, f64);

struct Course<'a> {
    subjects: [Entrant; 2],
    wrk: Wrk,
    limits: &'a Limits,
    run: u64,
}

pub(super) fn seconds(limits: &Limits) -> f64 {
    // And once to warm up.
    let cases = (1 + CONNECTIONS.len() + SIZES.len()) * CASES.len();
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
    let subjects = [start(NGINX)?, start(GATEWAY_EMBEDDED)?];
    let wrk = Wrk::new(tools.wrk.clone(), scratch);
    let mut course = Course { subjects, wrk, limits, run: 0 };
    for bytes in SIZES.into_iter().chain([BODY_BYTES]) {
        course.subjects[1].subject.settle(bytes)?;
    }
    println!("warming up, not counted");
    course.measure(USUAL_CONNECTIONS, BODY_BYTES, &mut Vec::new())?;
    let connections = CONNECTIONS.map(|connections| (connections, connections, BODY_BYTES));
    let sizes = SIZES.map(|bytes| (bytes, USUAL_CONNECTIONS, bytes));
    let mut missing = [Vec::new(), Vec::new()];
    let [cut_off, too_large] = &mut missing;
    let curves = [course.curves(&connections, cut_off)?, course.curves(&sizes, too_large)?];
    let ([by_connections, by_size], [cut_off, too_large]) = (curves, missing);
    Ok(vec![
        Question {
            slug: "connections",
            title: "Connections through the gateway (embedded, power)",
            x: "connections",
            curves: by_connections,
            missing: cut_off,
        },
        Question {
            slug: "bodies",
            title: "Bodies through the gateway (embedded, power; 64 connections)",
            x: "bytes of the request's body, and of the answer's",
            curves: by_size,
            missing: too_large,
        },
    ])
}

// === impl Course ===

impl Course<'_> {
    /// All cases at each size: (what the axis has, connections, bytes of a body).
    fn curves(
        &mut self,
        sizes: &[(usize, usize, usize)],
        missing: &mut Vec<String>,
    ) -> anyhow::Result<Vec<Curve>> {
        let mut curves = CASES.map(|(name, _, _)| Curve::new(name));
        for &(x, connections, bytes) in sizes {
            let rounds = self.measure(connections, bytes, missing)?;
            for (curve, rounds) in curves.iter_mut().zip(&rounds) {
                curve.push(x as f64, rounds);
                if let Some(point) = curve.at(x as f64) {
                    let (name, rate) = (curve.name, point.rate);
                    println!("{connections:>4} conn {bytes:>7} B  {name:<28} {rate:>7.0}/s");
                }
            }
        }
        Ok(Vec::from(curves))
    }

    /// All rounds of all cases, there and back, at one size.
    fn measure(
        &mut self,
        connections: usize,
        bytes: usize,
        missing: &mut Vec<String>,
    ) -> anyhow::Result<[Vec<Figures>; CASES.len()]> {
        let mut rounds = CASES.map(|_| Vec::new());
        for round in 0..self.limits.rounds {
            let mut order: Vec<usize> = (0..CASES.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for case in order {
                match self.round(case, connections, bytes)? {
                    Ok(figures) => rounds[case].push(figures),
                    Err(fault) => {
                        let name = CASES[case].0;
                        let fault =
                            format!("{name}, {connections} connections, {bytes} B: {fault}");
                        println!("NOT COUNTED: {fault}");
                        missing.push(fault);
                    }
                }
            }
        }
        Ok(rounds)
    }

    /// One round, or why it does not count.
    fn round(
        &mut self,
        case: usize,
        connections: usize,
        bytes: usize,
    ) -> anyhow::Result<Result<Figures, String>> {
        stop::check()?;
        self.run += 1;
        let (_, load, subject) = CASES[case];
        let seed = format!("key-{}-{}", std::process::id(), self.run);
        let (subject, seconds) = (&self.subjects[subject].subject, self.limits.seconds);
        let shot = Shot::new(load, subject.address, connections, seconds, &seed);
        let arrived = subject.executions()?;
        let report = self.wrk.run(&Shot { bytes, ..shot })?;
        wait_until_quiet(|| self.subjects.iter().map(Entrant::spent).sum());
        let arrived = subject.executions()? - arrived;
        let fault = report.fault.or_else(|| astray(load, report.requests, arrived, connections));
        Ok(fault.map_or_else(|| Ok((report.per_second, report.p99.as_secs_f64() * 1e3)), Err))
    }
}
