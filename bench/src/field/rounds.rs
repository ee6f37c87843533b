//! Rounds of all subjects in turn: those that do the same work follow each other.

use std::time::Duration;

use super::entrant::Entrant;
use super::roster::Entry;
use crate::figures::median;
use crate::http::load::{BODY_BYTES, COPIES, Load, Shot, Wrk};
use crate::http::rounds::{Sample, astray, heading, wait_until_quiet};
use crate::http::{procfs, stop};

pub(crate) const CONNECTIONS: [usize; 3] = [1, 64, 256];
pub(crate) const LOADS: [Load; 3] = [Load::First, Load::Replay, Load::Duplicates];
/// So many users at once for a subject that keeps the keys of each session together.
const SESSIONS: usize = 1_000;
/// What a round takes besides its load: looking, and waiting until all is quiet.
const OVERHEAD: f64 = 0.6;

/// What all rounds of one load on one subject gave.
pub(crate) struct Row {
    pub(crate) entry: &'static Entry,
    pub(crate) load: Load,
    pub(crate) connections: usize,
    pub(crate) samples: Vec<Sample>,
    /// Of duplicates: executions per key, and what part of all answers was a refusal.
    pub(crate) executions: Vec<f64>,
    pub(crate) refused: Vec<f64>,
    /// Why rounds did not count.
    pub(crate) faults: Vec<String>,
}

/// Everything that runs while the field is measured.
pub(crate) struct Arena {
    entrants: Vec<Entrant>,
    sessions: Vec<Vec<String>>,
    /// The processes of their Redis servers.
    servers: Vec<u32>,
    wrk: Wrk,
    /// Keys of two runs never meet.
    run: u64,
}

// === impl Row ===

impl Row {
    pub(crate) fn new(entry: &'static Entry, load: Load, connections: usize) -> Self {
        let (samples, executions, refused) = (Vec::new(), Vec::new(), Vec::new());
        Self { entry, load, connections, samples, executions, refused, faults: Vec::new() }
    }

    /// Requests/s: median, least and most. Nothing if no round counted.
    pub(crate) fn rates(&self) -> Option<(f64, f64, f64)> {
        let rates = || self.samples.iter().map(|sample| sample.per_second);
        Some((median(rates()), rates().reduce(f64::min)?, rates().reduce(f64::max)?))
    }

    pub(crate) fn rate(&self) -> Option<f64> {
        self.rates().map(|(median, _, _)| median)
    }

    pub(crate) fn p99(&self) -> Option<Duration> {
        Sample::median(&self.samples).map(|sample| sample.p99)
    }
}

/// Seconds that all rounds take, about.
pub(crate) fn seconds(entries: &[&Entry], rounds: usize, seconds: u64) -> f64 {
    let cases: usize = entries.iter().map(|entry| entry.loads().len() * CONNECTIONS.len()).sum();
    // The first round warms up, for a second.
    let each = 1.0 + OVERHEAD + rounds as f64 * (seconds as f64 + OVERHEAD);
    cases as f64 * each + entries.len() as f64 * 3.0
}

// === impl Arena ===

impl Arena {
    /// Settles the keys that are replayed.
    pub(crate) fn new(entrants: Vec<Entrant>, wrk: Wrk) -> anyhow::Result<Self> {
        let mut sessions = Vec::new();
        for Entrant { entry, subject, .. } in &entrants {
            sessions.push(subject.sessions(SESSIONS)?);
            if let (true, Some(sessions)) = (entry.loads().contains(&Load::Replay), sessions.last())
            {
                subject.settle_in(sessions, BODY_BYTES)?;
            }
        }
        let servers = entrants.iter().filter_map(Entrant::redis_process).collect();
        Ok(Self { entrants, sessions, servers, wrk, run: 0 })
    }

    /// All rounds, after one short round that warms up, looks at every status, and is not counted.
    pub(crate) fn measure(&mut self, rounds: usize, seconds: u64) -> anyhow::Result<Vec<Row>> {
        let mut rows = self.rows();
        for round in 0..=rounds {
            println!("\n{}", heading(round, rounds));
            let mut order: Vec<usize> = (0..rows.len()).collect();
            // There and back, so that the successor of a heavy subject changes.
            if round % 2 == 0 {
                order.reverse();
            }
            for index in order {
                let (entrant, row) = &mut rows[index];
                let seconds = if round == 0 { 1 } else { seconds };
                match self.round(*entrant, row, seconds, round == 0)? {
                    Err(fault) => {
                        println!("{:<78} NOT COUNTED: {fault}", describe(row));
                        row.faults.push(format!("{}: {fault}", heading(round, rounds)));
                    }
                    Ok(found) if round > 0 => {
                        row.samples.push(found.sample);
                        row.executions.extend(found.executions);
                        row.refused.push(found.refused);
                    }
                    Ok(_) => {}
                }
            }
        }
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    fn rows(&self) -> Vec<(usize, Row)> {
        let mut rows = Vec::new();
        for connections in CONNECTIONS {
            for load in LOADS {
                for (number, entrant) in self.entrants.iter().enumerate() {
                    if entrant.entry.loads().contains(&load) {
                        rows.push((number, Row::new(entrant.entry, load, connections)));
                    }
                }
            }
        }
        rows
    }

    /// One round, or why it does not count.
    fn round(
        &mut self,
        entrant: usize,
        row: &Row,
        seconds: u64,
        looks: bool,
    ) -> anyhow::Result<Result<Found, String>> {
        stop::check()?;
        self.run += 1;
        let seed = format!("key-{}-{}", std::process::id(), self.run);
        let subject = &self.entrants[entrant].subject;
        // Settled keys are in their sessions. Others get fresh ones, so that none grows for ever.
        let fresh = match row.load {
            Load::Replay => Vec::new(),
            _ => subject.sessions(SESSIONS)?,
        };
        let cookies = if row.load == Load::Replay { &self.sessions[entrant] } else { &fresh };
        let shot = Shot {
            cookies,
            looks: looks && row.load == Load::Duplicates,
            ..Shot::new(row.load, subject.address, row.connections, seconds, &seed)
        };
        let (before, arrived) = (subject.cpu_time(), subject.executions()?);
        let report = self.wrk.run(&shot)?;
        wait_until_quiet(|| self.spent());
        let cpu = subject.cpu_time().saturating_sub(before);
        let arrived = subject.executions()? - arrived;
        let fault =
            report.fault.or_else(|| astray(row.load, report.requests, arrived, row.connections));
        if let Some(fault) = fault {
            return Ok(Err(fault));
        }
        let requests = report.requests.max(1) as f64;
        let sample = Sample {
            per_second: report.per_second,
            p50: report.p50,
            p99: report.p99,
            cpu: cpu.div_f64(requests),
        };
        let executions = (row.load == Load::Duplicates)
            .then(|| per_key(arrived, report.requests.div_ceil(COPIES), report.keys));
        let each = executions.map(|each| format!("  {each:.2} executions per key"));
        println!("{:<78} {}{}", describe(row), sample.describe(), each.unwrap_or_default());
        Ok(Ok(Found { sample, executions, refused: report.refused as f64 / requests }))
    }

    fn spent(&self) -> Duration {
        let servers = self.servers.iter().map(|process| procfs::cpu_time(*process));
        self.entrants.iter().map(Entrant::spent).chain(servers).sum()
    }
}

/// What one round gave.
struct Found {
    sample: Sample,
    executions: Option<f64>,
    refused: f64,
}

/// Executions per key. When time is up, some keys were sent of which nothing may have arrived: they
/// count if they were executed.
fn per_key(executions: u64, answered: u64, sent: u64) -> f64 {
    let keys = executions.clamp(answered.min(sent), sent.max(1));
    executions as f64 / keys as f64
}

pub(crate) fn load_name(load: Load) -> &'static str {
    match load {
        Load::Get => "GET",
        Load::First => "first executions",
        Load::Replay => "replays",
        Load::Duplicates => "50-way duplicates",
    }
}

fn describe(row: &Row) -> String {
    format!("{:<48} {:<17} {:>3} conn", row.entry.name, load_name(row.load), row.connections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_were_cut_off_count_if_they_were_executed() {
        let near = |one: f64, other: f64| (one - other).abs() < 1e-9;
        assert!(near(per_key(33, 32, 35), 1.0));
        assert!(near(per_key(70, 32, 35), 2.0));
        assert!(near(per_key(16, 32, 35), 0.5));
    }
}
