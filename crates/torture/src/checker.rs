//! Reads a history and says which invariants it breaks.
//!
//! One pass over the lines, with memory for each record; then each record is judged by its executions, its
//! answers and the faults at that time.

mod answers;
mod faults;
mod judge;
mod record;
mod report;
mod rule;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, ensure};

pub(crate) use report::counts;
pub use report::{Report, Violation};
pub use rule::Rule;

use crate::history::{Event, Head, Line, Purpose, Route, Tier};
use faults::Faults;
use record::{Execution, Record};

/// How much sooner or later than a fault its effects may show, in microseconds.
const SLACK: u64 = 3_000_000;

/// What was read so far.
#[derive(Debug)]
pub(crate) struct Checker {
    head: Head,
    faults: Faults,
    records: Vec<Record>,
    index: HashMap<(u8, Route, String), usize>,
    /// By nonce: the record, and which of its executions.
    executions: HashMap<String, (usize, usize)>,
    /// Requests that were not answered yet.
    open: HashMap<u64, Open>,
    suspicions: Vec<Suspicion>,
    report: Report,
}

/// Something that only a fault can excuse. Judged in the end: a stall is written down when it is over.
#[derive(Debug)]
struct Suspicion {
    rule: Rule,
    record: usize,
    gateway: usize,
    excuse: Excuse,
    during: (u64, u64),
    lines: Vec<u64>,
    what: String,
}

/// Which faults excuse it.
#[derive(Clone, Copy, Debug)]
enum Excuse {
    /// Any that a client of the gateway notices.
    Any,
    /// One that keeps the gateway from its store.
    StoreLoss,
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Open {
    record: usize,
    purpose: Purpose,
    gateway: usize,
    t: u64,
    line: u64,
}

/// Checks the history in a file.
pub fn check(path: &Path) -> anyhow::Result<Report> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    check_lines(BufReader::with_capacity(1 << 16, file))
        .with_context(|| format!("in {}", path.display()))
}

/// Checks a history.
pub fn check_lines(lines: impl BufRead) -> anyhow::Result<Report> {
    let mut checker: Option<Checker> = None;
    for (number, text) in lines.lines().enumerate() {
        let line = number as u64 + 1;
        let parsed: Line =
            serde_json::from_str(&text?).with_context(|| format!("line {line} is no event"))?;
        match (&mut checker, parsed.event) {
            (None, Event::Head(head)) => checker = Some(Checker::new(head)),
            (None, _) => anyhow::bail!("the first line does not say what the run was"),
            (Some(checker), event) => checker.read(line, parsed.t, event)?,
        }
    }
    Ok(checker.context("there is nothing in it")?.finish())
}

// === impl Checker ===

impl Checker {
    fn new(head: Head) -> Self {
        let report = Report::new(&head);
        Self {
            head,
            faults: Faults::default(),
            records: Vec::new(),
            index: HashMap::new(),
            executions: HashMap::new(),
            open: HashMap::new(),
            suspicions: Vec::new(),
            report,
        }
    }

    fn read(&mut self, line: u64, t: u64, event: Event) -> anyhow::Result<()> {
        self.report.lines = line;
        match event {
            Event::Head(_) => anyhow::bail!("line {line} says again what the run was"),
            Event::Phase { name } => self.report.phase(&name, t),
            Event::Invoke { op, purpose, gateway, scope, route, key } => {
                let record = self.record(scope, route, key);
                self.records[record].invoked(t, purpose, line);
                self.report.requests += 1;
                let before = self.open.insert(op, Open { record, purpose, gateway, t, line });
                ensure!(before.is_none(), "line {line} sends request {op} again");
            }
            Event::Ok { op, .. } => {
                let open = self.answered(op, line)?;
                self.told_outcome(line, t, open, event);
            }
            Event::Fail { op, status, code } => {
                let open = self.answered(op, line)?;
                self.told_failure(line, t, open, status, &code);
            }
            Event::Info { op, why } => {
                let open = self.answered(op, line)?;
                self.told_nothing(line, t, open, &why);
            }
            Event::Begin { nonce, gateway, scope, route, key, fence, variant } => {
                let record = self.record(scope, route, key);
                let execution =
                    Execution { nonce, gateway, fence, variant, began: t, line, ended: None };
                self.begun(record, execution);
            }
            Event::End { nonce, status } => self.ended(line, t, &nonce, status),
            Event::Takeover { .. } => self.report.takeovers += 1,
            Event::Fault { id, kind, hits, .. } => {
                *self.report.faults.entry(kind.clone()).or_default() += 1;
                self.faults.begin(id, kind, hits, t);
            }
            Event::Healed { id } => self.faults.end(id, t),
            Event::Refused { count, .. } => self.report.refused += count,
        }
        Ok(())
    }

    fn record(&mut self, scope: u8, route: Route, key: String) -> usize {
        let next = self.records.len();
        let found = *self.index.entry((scope, route, key.clone())).or_insert(next);
        if found == next {
            self.records.push(Record::new(scope, route, key));
        }
        found
    }

    fn answered(&mut self, op: u64, line: u64) -> anyhow::Result<Open> {
        self.open
            .remove(&op)
            .with_context(|| format!("line {line} answers {op}, which nobody sent"))
    }

    fn begun(&mut self, record: usize, execution: Execution) {
        self.report.executions += 1;
        self.executions
            .insert(execution.nonce.clone(), (record, self.records[record].executions.len()));
        let (line, began) = (execution.line, execution.began);
        let broken = if self.records[record].key.starts_with("smuggled") {
            Some((Rule::DrainedBody, "a body was read as a request, and executed"))
        } else if execution.fence.is_none() {
            Some((Rule::ClaimFirst, "an execution without a fence"))
        } else if execution.variant != 0 {
            Some((Rule::MismatchInert, "another body under a used key was executed"))
        } else {
            None
        };
        self.records[record].executions.push(execution);
        if let Some((rule, what)) = broken {
            let from = self.records[record].first_invoke.unwrap_or(began);
            self.accuse(rule, record, (from, began), vec![line], what.to_owned());
        }
    }

    fn ended(&mut self, line: u64, t: u64, nonce: &str, status: u16) {
        if let Some((record, number)) = self.executions.get(nonce) {
            self.records[*record].executions[*number].ended =
                Some(record::Ended { t, status, line });
        }
    }

    /// Something that must not be, between two moments. On a weak tier a failover may excuse it.
    fn accuse(
        &mut self,
        rule: Rule,
        record: usize,
        (from, until): (u64, u64),
        lines: Vec<u64>,
        what: String,
    ) {
        let Record { scope, route, key, .. } = &self.records[record];
        let violation =
            Violation { rule, scope: *scope, route: *route, key: key.clone(), lines, what };
        let may_be_lost = self.head.tier == Tier::Weak && rule.may_follow_a_loss();
        if may_be_lost && self.faults.failover(from.saturating_sub(SLACK), until).is_some() {
            self.report.losses.push(violation);
        } else {
            self.report.violations.push(violation);
        }
    }
}

#[cfg(test)]
mod tests;
