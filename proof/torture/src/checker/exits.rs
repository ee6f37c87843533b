//! What gateways were asked for: a start must succeed, and an end must cut nothing off, if the store is there.

use super::{AFTERMATH, Checker, Rule, Subject, Violation};
use crate::history::Wish;

/// What happened to the store so long before a gateway is asked to end may still keep it from its end, in
/// microseconds: for 30 s a claim that was not answered may yet arrive, and is looked for every 5 s
/// (`LATE_MAX` in the engine).
const UNANSWERED: u64 = 35_000_000;

/// What a gateway was asked for, and what came of it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) gateway: usize,
    pub(super) to: Wish,
    pub(super) during: (u64, u64),
    pub(super) done: bool,
    pub(super) line: u64,
    pub(super) note: String,
}

// === impl Checker ===

impl Checker {
    /// Each is a trial, unless something would excuse its failure.
    pub(super) fn judge_exits(&mut self) {
        for asked in std::mem::take(&mut self.asked) {
            if self.may_fail(&asked) {
                continue;
            }
            *self.report.trials.entry(Rule::BadExit).or_default() += 1;
            if !asked.done {
                self.report.violations.push(asked.into_violation());
            }
        }
    }

    /// True if its store was down, or if it may not have detected yet that the store is back.
    fn may_fail(&self, asked: &Asked) -> bool {
        let Asked { gateway, to, during: (since, until), .. } = *asked;
        match to {
            Wish::Start => {
                let from = since.saturating_sub(AFTERMATH);
                self.faults.store_loss_at_start(gateway, from, until).is_some()
                    || self.faults.promotion(from, until).is_some()
            }
            Wish::End => {
                let from = since.saturating_sub(UNANSWERED);
                let began = self.faults.last_start(gateway, from, since);
                let from = began.map_or(from, |began| from.max(began.saturating_sub(AFTERMATH)));
                self.faults.store_loss(gateway, from, until).is_some()
                    || self.faults.promotion(from, until).is_some()
            }
        }
    }
}

// === impl Asked ===

impl Asked {
    fn into_violation(self) -> Violation {
        let failed = match self.to {
            Wish::Start => "it could not start",
            Wish::End => "it cut something off when it was asked to end",
        };
        let what = format!("{failed}, and its store was there: {}", self.note);
        let (rule, subject) = (Rule::BadExit, Subject::Gateway(self.gateway));
        Violation { rule, subject, lines: vec![self.line], what }
    }
}
