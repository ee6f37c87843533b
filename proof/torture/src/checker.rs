//! Reads a history and says which invariants it breaks.
//!
//! One pass over the lines, with memory for each record; then each record is judged by its executions, its
//! answers and the faults at that time.

mod answers;
mod exits;
mod faults;
mod full;
mod judge;
mod record;
mod report;
mod rule;
mod takeover;
mod trials;

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

use anyhow::{Context as _, ensure};

pub(crate) use report::counts;
pub use report::{Report, Subject, Violation};
pub use rule::Rule;

use crate::history::{Event, Head, Line, Purpose, Route, Tier};
use answers::Refusal;
use exits::Asked;
use faults::Faults;
use record::{Ended, Execution, Moment, Record};

/// How much later than a fault its effects may show, in microseconds. That they show before its end needs
/// no slack: what overlaps with a fault is disturbed.
const SLACK: u64 = 1_000_000;
/// How much later a store may still be taken for lost: until a guard lets the next verb through.
const AFTERMATH: u64 = 4_000_000;

/// Suffix of the kind of a fault without an effect.
pub(crate) const IDLE: &str = " IDLE";

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
    /// Requests that were answered, or given up.
    closed: Vec<Closed>,
    /// Since when keys were asked for again that had been found held in the end.
    asked_again: Option<u64>,
    /// What gateways were asked for.
    asked: Vec<Asked>,
    suspicions: Vec<Suspicion>,
    accusations: Vec<Accusation>,
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

/// Something that must not be, unless a weak tier has lost a record. Judged in the end too: a promotion is
/// noticed a little after what it led to.
#[derive(Debug)]
struct Accusation {
    rule: Rule,
    record: usize,
    during: (u64, u64),
    lines: Vec<u64>,
    what: String,
}

/// Which faults excuse it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Excuse {
    /// Any that a client of the gateway notices.
    Any,
    /// One of the gateway itself, or of the machine.
    Gateway,
    /// That the gateway was asked to end.
    Term,
    /// Any that took so much of its time that less than this is left, in microseconds.
    Time(u64),
    /// One that keeps the gateway from its store.
    StoreLoss,
    /// The same, or one before which it may not have found its store yet.
    StoreAway,
    /// The same, or one that leaves a store no room for anything new.
    StoreAwayOrFull,
    /// One that may have kept the store's answer from the gateway when it was asked at this moment.
    Unanswered(u64),
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
struct Open {
    record: usize,
    purpose: Purpose,
    gateway: usize,
    t: u64,
    line: u64,
    /// True if there were faults when it was sent.
    is_faulty: bool,
}

/// A request that is over.
#[derive(Clone, Copy, Debug)]
struct Closed {
    purpose: Purpose,
    gateway: usize,
    from: u64,
    until: u64,
    end: RequestEnd,
}

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestEnd {
    Answer,
    /// A refusal that something must have caused.
    Refused(Excuse),
    /// Nothing, for so many milliseconds, and then it left.
    NothingFor(u64),
    /// Nothing, as it left at once.
    Left,
    /// That the connection was of no use.
    Broken,
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
            faults: Faults::new(head.lease_ms * 1_000),
            head,
            records: Vec::new(),
            index: HashMap::new(),
            executions: HashMap::new(),
            open: HashMap::new(),
            closed: Vec::new(),
            asked_again: None,
            asked: Vec::new(),
            suspicions: Vec::new(),
            accusations: Vec::new(),
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
                if purpose == Purpose::Read && self.records[record].has_final_answer(gateway) {
                    self.asked_again.get_or_insert(t);
                }
                self.records[record].invoked(t, purpose, gateway, line);
                let is_faulty = self.report.sent(purpose);
                let open = Open { record, purpose, gateway, t, line, is_faulty };
                let before = self.open.insert(op, open);
                ensure!(before.is_none(), "line {line} sends request {op} again");
            }
            Event::Ok { op, .. } => {
                let open = self.opened(op, line)?;
                self.close(open, t, RequestEnd::Answer);
                self.on_outcome(line, t, open, event);
            }
            Event::Fail { op, status, code, retry_after, effect } => {
                let open = self.opened(op, line)?;
                let cause = self.cause_of(open, t, &code);
                self.close(open, t, cause.map_or(RequestEnd::Answer, RequestEnd::Refused));
                let refusal = Refusal { status, code: &code, retry_after, effect };
                self.on_failure(line, t, open, &refusal);
            }
            Event::Info { op, why } => {
                let (open, end) = (self.opened(op, line)?, RequestEnd::of(&why));
                self.close(open, t, end);
                self.on_no_answer(line, t, open, end, &why);
            }
            Event::Begin { nonce, gateway, scope, route, key, fence, variant } => {
                let record = self.record(scope, route, key);
                let execution =
                    Execution::begun(nonce, gateway, fence, variant, Moment { t, line });
                self.begun(record, execution);
            }
            Event::End { nonce, status, digest } => {
                self.ended(&nonce, Ended { t, status, digest, line });
            }
            Event::Takeover { .. } => self.report.takeovers += 1,
            Event::Fault { id, kind, hits, near, .. } => {
                *self.report.faults.entry(kind.clone()).or_default() += 1;
                self.faults.begin(id, kind, hits, near, t);
            }
            Event::Healed { id, struck: Some(0) } => self.withdraw(id),
            Event::Healed { id, .. } => self.faults.end(id, t),
            Event::Refused { count, .. } => self.report.refused += count,
            Event::Asked { gateway, to, since, done, note } => {
                self.asked.push(Asked { gateway, to, during: (since, t), done, line, note });
            }
        }
        Ok(())
    }

    /// A fault without an effect neither counts nor excuses.
    fn withdraw(&mut self, id: u64) {
        let Some(kind) = self.faults.withdraw(id) else { return };
        *self.report.faults.entry(format!("{kind}{IDLE}")).or_default() += 1;
        if let Some(count) = self.report.faults.get_mut(kind) {
            *count -= 1;
            if *count == 0 {
                self.report.faults.remove(kind);
            }
        }
    }

    fn record(&mut self, scope: u8, route: Route, key: String) -> usize {
        let next = self.records.len();
        let found = *self.index.entry((scope, route, key.clone())).or_insert(next);
        if found == next {
            self.records.push(Record::new(scope, route, key));
        }
        found
    }

    /// The request that this line is about.
    fn opened(&mut self, op: u64, line: u64) -> anyhow::Result<Open> {
        let open = self.open.remove(&op);
        open.with_context(|| format!("line {line} answers {op}, which was never sent"))
    }

    fn close(&mut self, open: Open, t: u64, end: RequestEnd) {
        let Open { record, purpose, gateway, t: from, .. } = open;
        self.closed.push(Closed { purpose, gateway, from, until: t, end });
        self.records[record].closed(gateway, t);
        if end.is_answer() {
            self.report.answered_under_faults += u64::from(open.is_faulty);
        } else if may_execute(purpose) {
            self.records[record].left(gateway, from, t);
        }
    }

    fn begun(&mut self, record: usize, execution: Execution) {
        self.report.executions += 1;
        self.executions
            .insert(execution.nonce.clone(), (record, self.records[record].executions.len()));
        let Execution { line, began, fence, variant, .. } = execution;
        self.records[record].executions.push(execution);
        if self.records[record].key.starts_with("smuggled") {
            let what = "a body was read as a request, and executed".to_owned();
            self.convict(Rule::DrainedBody, record, vec![line], what);
        } else if fence.is_none() {
            let what = "an execution without a fence".to_owned();
            self.convict(Rule::ClaimFirst, record, vec![line], what);
        } else if variant != 0 {
            let from = self.records[record].first_invoke.unwrap_or(began);
            let what = "another body under a used key was executed".to_owned();
            self.accuse(Rule::MismatchInert, record, (from, began), vec![line], what);
        }
    }

    fn ended(&mut self, nonce: &str, ended: Ended) {
        if let Some((record, number)) = self.executions.get(nonce) {
            self.records[*record].executions[*number].ended = Some(ended);
        }
    }

    /// Something that must not be, between two moments. On a weak tier a lost record may excuse it.
    fn accuse(
        &mut self,
        rule: Rule,
        record: usize,
        during: (u64, u64),
        lines: Vec<u64>,
        what: String,
    ) {
        self.accusations.push(Accusation { rule, record, during, lines, what });
    }

    /// Something that must not be, whatever was lost.
    fn convict(&mut self, rule: Rule, record: usize, lines: Vec<u64>, what: String) {
        let violation = self.violation(rule, record, lines, what);
        self.report.violations.push(violation);
    }

    fn violation(&self, rule: Rule, record: usize, lines: Vec<u64>, what: String) -> Violation {
        let Record { scope, route, key, .. } = &self.records[record];
        let subject = Subject::Record { scope: *scope, route: *route, key: key.clone() };
        Violation { rule, subject, lines, what }
    }

    /// True if records may have been lost between two moments. Only by a promotion, which may be detected a little
    /// after its effects.
    fn may_be_lost(&self, from: u64, until: u64) -> bool {
        self.head.tier == Tier::Weak
            && self.faults.promotion(from.saturating_sub(SLACK), until + SLACK).is_some()
    }
}

/// True if a key may be executed for such a request. Not for one that is incomplete, has no key, or has another body.
fn may_execute(purpose: Purpose) -> bool {
    !matches!(purpose, Purpose::HangUpInRequest | Purpose::Probe | Purpose::Mismatch)
}

// === impl RequestEnd ===

impl RequestEnd {
    /// From the reason that a client recorded for a missing answer.
    fn of(why: &str) -> Self {
        match why.strip_prefix("timeout ") {
            Some(limit_ms) => Self::NothingFor(limit_ms.parse().unwrap_or(0)),
            None if why == "hung-up" => Self::Left,
            None => Self::Broken,
        }
    }

    fn is_answer(self) -> bool {
        matches!(self, Self::Answer | Self::Refused(_))
    }
}

#[cfg(test)]
mod tests;
