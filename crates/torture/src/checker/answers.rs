//! What clients were told, line by line.

use super::record::{Known, Moment};
use super::{Checker, Excuse, Open, Rule, Suspicion};
use crate::history::{Event, Purpose, Route};

/// A client that waits so long for an answer should have had one.
const PATIENCE_MS: u64 = 10_000;

/// Refusals that a client may meet at any time while things break.
const EXPECTED: [&str; 8] = [
    "idempotency_store_unavailable",
    "shutting_down",
    "too_busy",
    "execution_interrupted",
    "upstream_unreachable",
    "upstream_timeout",
    // A request that comes too slowly, or not to its end.
    "request_timeout",
    "request_body_broken",
];

// === impl Checker ===

impl Checker {
    pub(super) fn told_outcome(&mut self, line: u64, t: u64, open: Open, event: Event) {
        let Event::Ok { status, nonce, digest, scope, key, replayed, cookies, stored, .. } = event
        else {
            return;
        };
        let lines = vec![open.line, line];
        let record = &self.records[open.record];
        let during = (record.first_invoke.unwrap_or(open.t), t);
        self.report.outcomes += 1;
        if scope != Some(record.scope) {
            let what = format!("scope {} was given a reply to scope {scope:?}", record.scope);
            return self.accuse(Rule::ScopeCanary, open.record, during, lines, what);
        }
        if key != record.key {
            let what = format!("it was given the reply to key {key}");
            return self.accuse(Rule::DrainedBody, open.record, during, lines, what);
        }
        if open.purpose == Purpose::Mismatch {
            let what = "another body under a used key was given an outcome".to_owned();
            return self.accuse(Rule::MismatchInert, open.record, during, lines, what);
        }
        if replayed && cookies {
            let what = "a replay has cookies".to_owned();
            self.accuse(Rule::Cookies, open.record, during, lines.clone(), what);
        }
        if !self.is_what_was_said(open, status, &nonce, &lines, during) {
            return;
        }
        if stored == "yes" {
            self.told_recorded(line, t, open, Known { nonce, digest, at: Moment { t, line } });
        } else {
            self.told_unrecorded(t, open, &nonce, &stored, lines);
        }
    }

    /// Is it the outcome of an execution of this record?
    fn is_what_was_said(
        &mut self,
        open: Open,
        status: u16,
        nonce: &str,
        lines: &[u64],
        during: (u64, u64),
    ) -> bool {
        let found = self.executions.get(nonce).copied();
        let Some((record, number)) = found.filter(|(record, _)| *record == open.record) else {
            let what = format!("no execution of this key is called {nonce}");
            self.accuse(Rule::NoSuchExecution, open.record, during, lines.to_vec(), what);
            return false;
        };
        let execution = &self.records[record].executions[number];
        if execution.ended.is_some_and(|ended| ended.status == status) {
            return true;
        }
        let what = format!("{nonce} was told as {status}; it ended as {:?}", execution.ended);
        let lines = [lines, &[execution.line]].concat();
        self.accuse(Rule::OneAnswer, open.record, during, lines, what);
        false
    }

    fn told_recorded(&mut self, line: u64, t: u64, open: Open, known: Known) {
        let record = &mut self.records[open.record];
        if open.purpose == Purpose::Read {
            record.last_word(open.gateway, Moment { t, line });
        }
        let Some(first) = &record.answer else {
            record.answer = Some(known);
            return;
        };
        if first.nonce == known.nonce && first.digest == known.digest {
            return;
        }
        let differ = if first.nonce == known.nonce { "bytes" } else { "executions" };
        let what =
            format!("two answers differ in their {differ}: {} and {}", first.nonce, known.nonce);
        let (from, lines) = (first.at.t, vec![first.at.line, open.line, line]);
        self.accuse(Rule::OneAnswer, open.record, (from, t), lines, what);
    }

    /// `X-Idempotency-Stored: false` must have a reason.
    fn told_unrecorded(&mut self, t: u64, open: Open, nonce: &str, stored: &str, lines: Vec<u64>) {
        self.report.unrecorded += 1;
        let record = &self.records[open.record];
        let execution = record.executions.iter().find(|execution| execution.nonce == nonce);
        let Some(execution) = execution else { return };
        let (began, gateway) = (execution.began, execution.gateway);
        if stored == "gone" {
            let what = format!("the record of {nonce} was gone when it was to be settled");
            return self.accuse(Rule::AnswerLost, open.record, (began, t), lines, what);
        }
        self.suspicions.push(Suspicion {
            rule: Rule::SettleFirst,
            record: open.record,
            gateway,
            excuse: Excuse::StoreLoss,
            during: (began, t),
            lines,
            what: format!("{nonce} was told unrecorded, and the store was there"),
        });
    }

    pub(super) fn told_failure(&mut self, line: u64, t: u64, open: Open, status: u16, code: &str) {
        *self.report.refusals.entry(code.to_owned()).or_default() += 1;
        let rule = match (open.purpose, code) {
            (Purpose::Probe, "idempotency_key_missing" | "idempotency_key_invalid") => return,
            (Purpose::Mismatch, "idempotency_payload_mismatch") if status == 422 => return,
            (Purpose::Mismatch, "outcome_unknown" | "request_in_progress" | "upstream") => {
                Rule::MismatchInert
            }
            (_, expected) if EXPECTED.contains(&expected) => return,
            (Purpose::Probe | Purpose::Mismatch, _) => Rule::Bounded,
            (_, "idempotency_payload_mismatch") => Rule::MismatchInert,
            (_, "outcome_unknown") if self.records[open.record].route == Route::Hold => {
                return self.told_unfinished(line, t, open, code);
            }
            (_, "request_in_progress") => return self.told_unfinished(line, t, open, code),
            (_, "upstream") if status == 503 => return,
            _ => Rule::Bounded,
        };
        let what = format!("{status} {code} for a request of this kind ({:?})", open.purpose);
        let from = self.records[open.record].first_invoke.unwrap_or(open.t);
        self.accuse(rule, open.record, (from, t), vec![open.line, line], what);
    }

    /// It is unknown or in progress, so it must not have been known when the request was sent.
    fn told_unfinished(&mut self, line: u64, t: u64, open: Open, code: &str) {
        let record = &mut self.records[open.record];
        if code == "outcome_unknown" {
            record.unknown = Some(Moment { t, line });
            if open.purpose == Purpose::Read {
                record.last_word(open.gateway, Moment { t, line });
            }
        }
        if let Some(known) = record.answer.as_ref().filter(|known| known.at.t < open.t) {
            let what =
                format!("{code}, after {} had been told as its recorded outcome", known.nonce);
            let (from, lines) = (known.at.t, vec![known.at.line, open.line, line]);
            self.accuse(Rule::SettledIsFinal, open.record, (from, t), lines, what);
        }
    }

    pub(super) fn told_nothing(&mut self, line: u64, t: u64, open: Open, why: &str) {
        self.report.unheard += 1;
        let gateway = open.gateway;
        let waited_ms = why.strip_prefix("timeout ").map(|limit| limit.parse().unwrap_or(0));
        let (rule, what) = match waited_ms {
            Some(waited) if waited >= PATIENCE_MS => {
                (Rule::Bounded, format!("no answer of gateway {gateway} within {waited} ms"))
            }
            None if open.purpose == Purpose::AfterProbe => {
                let what = format!("gateway {gateway} left a connection open that was of no use");
                (Rule::DrainedBody, format!("{what} ({why})"))
            }
            _ => return,
        };
        let lines = vec![open.line, line];
        let (record, during, excuse) = (open.record, (open.t, t), Excuse::Any);
        self.suspicions.push(Suspicion { rule, record, gateway, excuse, during, lines, what });
    }
}
