//! What clients were told, line by line.

use super::record::{self, Ended, Execution, Known, Moment};
use super::{AFTERMATH, Checker, Excuse, Heard, Open, Rule, Suspicion};
use crate::history::{Effect, Event, Purpose, Route};

/// A client that waits so long for an answer should have had one.
pub(super) const PATIENCE_MS: u64 = 10_000;

/// A refusal as it was told.
pub(super) struct Refusal<'a> {
    pub(super) status: u16,
    pub(super) code: &'a str,
    pub(super) retry_after: bool,
    /// Of the upstream's own.
    pub(super) effect: Option<Effect>,
}

const UPSTREAM_UNREACHABLE: &str = "upstream_unreachable";
const STORE_UNAVAILABLE: &str = "idempotency_store_unavailable";

/// What must have happened where a client meets this refusal; `None` if nothing would explain it.
fn cause_of(code: &str) -> Option<Excuse> {
    match code {
        STORE_UNAVAILABLE => Some(Excuse::StoreAwayOrFull),
        "execution_interrupted" => Some(Excuse::Term),
        // The upstream is always there, and so is the way to it.
        "upstream_timeout" | UPSTREAM_UNREACHABLE => Some(Excuse::Gateway),
        // A request may come too slowly, or not to its end; many wait for a store that is away.
        "shutting_down" | "too_busy" | "request_timeout" | "request_body_broken" => {
            Some(Excuse::Any)
        }
        _ => None,
    }
}

/// Is this the answer to a request that is replayed the outcome if there is one?
fn may_ask_for_replay(purpose: Purpose, code: &str) -> bool {
    let is_whole = !matches!(purpose, Purpose::Mismatch | Purpose::Probe);
    is_whole && matches!(code, STORE_UNAVAILABLE | "outcome_unknown" | "request_in_progress")
}

// === impl Open ===

impl Open {
    fn heard(&self, line: u64, t: u64, is_outcome: bool) -> record::Heard {
        let sent = Moment { t: self.t, line: self.line };
        let told = Moment { t, line };
        record::Heard { gateway: self.gateway, sent, told, is_outcome }
    }
}

// === impl Refusal ===

impl Refusal<'_> {
    /// Does it say what becomes of the record? Others are the same whatever that is.
    fn tells_of_record(&self, purpose: Purpose) -> bool {
        match self.code {
            "outcome_unknown" | "request_in_progress" | "upstream" => true,
            "idempotency_payload_mismatch" => purpose == Purpose::Mismatch,
            _ => false,
        }
    }
}

// === impl Checker ===

impl Checker {
    pub(super) fn told_outcome(&mut self, line: u64, t: u64, open: Open, event: Event) {
        let Event::Ok { effect, digest, cookies, stored, .. } = event else { return };
        let lines = vec![open.line, line];
        self.note_heard(line, t, open, true);
        self.note_told(open, open.heard(line, t, true));
        let record = &mut self.records[open.record];
        let during = (record.first_invoke.unwrap_or(open.t), t);
        record.told.outcomes += 1;
        record.told.replays += u64::from(effect.replayed);
        self.report.outcomes += 1;
        if !self.is_for_whom_it_is_told(t, open, &effect, &lines) {
            return;
        }
        if open.purpose == Purpose::Mismatch {
            let what = "another body under a used key was given an outcome".to_owned();
            return self.accuse(Rule::MismatchInert, open.record, during, lines, what);
        }
        if effect.replayed && cookies {
            let what = "a replay has cookies".to_owned();
            self.accuse(Rule::Cookies, open.record, during, lines.clone(), what);
        }
        if !self.is_what_was_said(open, &effect, &lines) {
            return;
        }
        let Effect { nonce, replayed, .. } = effect;
        if !replayed {
            self.told_first_hand(line, open, &nonce);
        }
        if stored == "yes" {
            self.told_recorded(line, t, open, Known { nonce, digest, at: Moment { t, line } });
        } else {
            self.told_unrecorded(t, open, &nonce, &stored, lines);
        }
    }

    /// Is a reply meant for who was given it?
    fn is_for_whom_it_is_told(
        &mut self,
        t: u64,
        open: Open,
        effect: &Effect,
        lines: &[u64],
    ) -> bool {
        let record = &self.records[open.record];
        let during = (record.first_invoke.unwrap_or(open.t), t);
        let (rule, what) = if effect.scope != Some(record.scope) {
            let (own, other) = (record.scope, effect.scope);
            (Rule::ScopeCanary, format!("scope {own} was given a reply to scope {other:?}"))
        } else if effect.key != record.key {
            (Rule::DrainedBody, format!("it was given the reply to key {}", effect.key))
        } else {
            return true;
        };
        self.accuse(rule, open.record, during, lines.to_vec(), what);
        false
    }

    /// Is it the outcome of an execution of this record, as the upstream said it? No loss of a record
    /// can change that.
    fn is_what_was_said(&mut self, open: Open, effect: &Effect, lines: &[u64]) -> bool {
        let Effect { nonce, said, .. } = effect;
        let found = self.executions.get(nonce.as_str()).copied();
        let Some((record, number)) = found.filter(|(record, _)| *record == open.record) else {
            let what = format!("no execution of this key is called {nonce}");
            self.convict(Rule::NoSuchExecution, open.record, lines.to_vec(), what);
            return false;
        };
        let Execution { ended, line, .. } = &self.records[record].executions[number];
        if ended.as_ref().is_some_and(|ended| ended.digest == *said) {
            return true;
        }
        let what = format!("{nonce} was told as {said}, and ended so: {ended:?}");
        let lines = [lines, &[*line]].concat();
        self.convict(Rule::OneAnswer, open.record, lines, what);
        false
    }

    /// Only who had it executed is told so, and that is one.
    fn told_first_hand(&mut self, line: u64, open: Open, nonce: &str) {
        let executions = &mut self.records[open.record].executions;
        let Some(execution) = executions.iter_mut().find(|one| one.nonce == nonce) else { return };
        if let Some(before) = execution.told_first_hand.replace(line) {
            let what = format!("{nonce} was told again, and not as a replay");
            self.convict(Rule::OneAnswer, open.record, vec![before, open.line, line], what);
        }
    }

    fn told_recorded(&mut self, line: u64, t: u64, open: Open, known: Known) {
        let record = &mut self.records[open.record];
        if open.purpose == Purpose::Read {
            record.last_word(open.gateway, Moment { t, line });
        }
        let is_fresh = record.is_first_told_by(open.gateway);
        let Some(first) = &record.answer else {
            record.answer = Some(known);
            return;
        };
        if is_fresh && self.faults.was_full(open.t, t) {
            record.fresh_replays.push(open.heard(line, t, true));
        }
        if first.nonce == known.nonce && first.digest == known.digest {
            return;
        }
        let lines = vec![first.at.line, open.line, line];
        let from = record.losable_since(first.at.t);
        if first.nonce == known.nonce {
            let what = format!("two answers of {} differ in what gateways add", known.nonce);
            self.convict(Rule::OneAnswer, open.record, lines, what);
        } else {
            let what =
                format!("two answers are of two executions: {} and {}", first.nonce, known.nonce);
            self.accuse(Rule::OneAnswer, open.record, (from, t), lines, what);
        }
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

    pub(super) fn told_failure(&mut self, line: u64, t: u64, open: Open, refusal: &Refusal<'_>) {
        let Refusal { status, code, .. } = *refusal;
        *self.report.refusals.entry(code.to_owned()).or_default() += 1;
        if refusal.tells_of_record(open.purpose) {
            self.note_told(open, open.heard(line, t, false));
        }
        if may_ask_for_replay(open.purpose, code) {
            self.note_heard(line, t, open, false);
        }
        let rule = match (open.purpose, code) {
            (Purpose::Mismatch, "idempotency_payload_mismatch") if status == 422 => return,
            (Purpose::Mismatch, "outcome_unknown" | "request_in_progress" | "upstream") => {
                Rule::MismatchInert
            }
            (Purpose::Probe, "idempotency_key_missing" | "idempotency_key_invalid") => return,
            (_, UPSTREAM_UNREACHABLE) if self.cause_of(open, t, code).is_none() => return,
            (_, code) if cause_of(code).is_some() => return self.refused(line, t, open, refusal),
            (Purpose::Probe | Purpose::Mismatch, _) => Rule::Bounded,
            (_, "idempotency_payload_mismatch") => Rule::MismatchInert,
            (_, "outcome_unknown") if self.records[open.record].route == Route::Hold => {
                return self.told_unfinished(line, t, open, code);
            }
            (_, "request_in_progress") => return self.told_unfinished(line, t, open, code),
            (_, "upstream") if status == 503 => return self.told_released(line, t, open, refusal),
            _ => Rule::Bounded,
        };
        if (open.purpose, rule) == (Purpose::Read, Rule::MismatchInert) {
            self.records[open.record].mistakes(open.gateway);
        }
        let what = format!("{status} {code} for a request of this kind ({:?})", open.purpose);
        let from = self.records[open.record].first_invoke.unwrap_or(open.t);
        self.accuse(rule, open.record, (from, t), vec![open.line, line], what);
    }

    /// The upstream says that nothing happened. Nobody keeps that, so it is told to who had it executed alone.
    fn told_released(&mut self, line: u64, t: u64, open: Open, refusal: &Refusal<'_>) {
        let Some(effect) = &refusal.effect else { return };
        let lines = vec![open.line, line];
        if !self.is_for_whom_it_is_told(t, open, effect, &lines)
            || !self.is_what_was_said(open, effect, &lines)
        {
            return;
        }
        let nonce = &effect.nonce;
        let executions = &self.records[open.record].executions;
        let is_own = executions.iter().any(|execution| {
            execution.nonce == *nonce
                && execution.gateway == open.gateway
                && execution.began >= open.t
        });
        if effect.replayed || !is_own {
            let what = format!("{nonce} says that nothing happened, and was told to somebody else");
            return self.convict(Rule::OneAnswer, open.record, lines, what);
        }
        self.told_first_hand(line, open, nonce);
    }

    /// What must have happened where a client meets this refusal, if anything must.
    pub(super) fn cause_of(&self, open: Open, t: u64, code: &str) -> Option<Excuse> {
        let is_upstreams = code == UPSTREAM_UNREACHABLE && self.has_closed(open, t);
        // A replay needs no room, so that a full store excuses nothing.
        let is_replay = code == STORE_UNAVAILABLE && self.records[open.record].is_known_at(open.t);
        match cause_of(code) {
            _ if is_upstreams => None,
            Some(_) if is_replay => Some(Excuse::StoreAway),
            cause => cause,
        }
    }

    /// Keeps what was told while the store was full.
    fn note_heard(&mut self, line: u64, t: u64, open: Open, is_outcome: bool) {
        if self.faults.was_full(t, t) {
            self.records[open.record].while_full.push(open.heard(line, t, is_outcome));
        }
    }

    /// Did the upstream close the connection, as it does on purpose, when this request was executed?
    fn has_closed(&self, open: Open, t: u64) -> bool {
        self.records[open.record].executions.iter().any(|execution| {
            let closed = |ended: &Ended| ended.status == 0 && (open.t..=t).contains(&ended.t);
            execution.gateway == open.gateway && execution.ended.as_ref().is_some_and(closed)
        })
    }

    /// A refusal that a client may meet while things break, and only then.
    fn refused(&mut self, line: u64, t: u64, open: Open, refusal: &Refusal<'_>) {
        let Open { record, gateway, .. } = open;
        let Refusal { status, code, retry_after, .. } = *refusal;
        let lines = vec![open.line, line];
        if code == STORE_UNAVAILABLE && (status != 503 || !retry_after) {
            let what = format!("{status} {code} that does not say when to come again");
            return self.convict(Rule::Bounded, record, lines, what);
        }
        let Some(excuse) = self.cause_of(open, t, code) else { return };
        let what = format!("{status} {code} of gateway {gateway}, and nothing had happened");
        let (rule, during) = (Rule::CauselessRefusal, (open.t, t));
        self.suspicions.push(Suspicion { rule, record, gateway, excuse, during, lines, what });
    }

    /// It is unknown or in progress, so it must not have been known when the request was sent.
    fn told_unfinished(&mut self, line: u64, t: u64, open: Open, code: &str) {
        let record = &mut self.records[open.record];
        if code == "request_in_progress" {
            record.is_in_progress(open.t, t);
        } else {
            let told = Moment { t, line };
            record.is_unknown(Moment { t: open.t, line: open.line }, told);
            if open.purpose == Purpose::Read {
                record.last_word(open.gateway, told);
            }
        }
        if let Some(known) = record.answer.as_ref().filter(|known| known.at.t < open.t) {
            let what =
                format!("{code}, after {} had been told as its recorded outcome", known.nonce);
            let lines = vec![known.at.line, open.line, line];
            let (rule, during) = (Rule::SettledIsFinal, (record.losable_since(known.at.t), t));
            if code == "request_in_progress" && self.may_be_unaware(open) {
                let Open { record, gateway, .. } = open;
                let excuse = Excuse::Unheard(open.t);
                self.suspicions.push(Suspicion {
                    rule,
                    record,
                    gateway,
                    excuse,
                    during,
                    lines,
                    what,
                });
            } else {
                self.accuse(rule, open.record, during, lines, what);
            }
        }
    }

    /// Has the process that was asked executed the key itself? Then it need not ask the store, and may not have heard
    /// that what it settled was settled, or that another has.
    fn may_be_unaware(&self, open: Open) -> bool {
        let record = &self.records[open.record];
        record.executions.iter().any(|execution| {
            let is_own = execution.gateway == open.gateway && execution.began <= open.t;
            let is_released = execution.is_released(record.route, open.t);
            let from = execution.began;
            is_own && !is_released && !self.faults.has_ended(open.gateway, from, open.t)
        })
    }

    /// What becomes of the record was told. If it could have been something else, and nothing would be said of that,
    /// it tries nothing.
    fn note_told(&mut self, open: Open, heard: record::Heard) {
        let from = open.t.saturating_sub(AFTERMATH);
        let is_excused = self.may_be_unaware(open)
            && self.faults.store_loss(open.gateway, from, heard.told.t).is_some();
        self.records[open.record].heard(heard, open.purpose, is_excused);
    }

    pub(super) fn told_nothing(&mut self, line: u64, t: u64, open: Open, heard: Heard, why: &str) {
        self.report.unheard += 1;
        let gateway = open.gateway;
        let (rule, excuse, what) = match heard {
            Heard::NothingFor(waited) if waited >= PATIENCE_MS => {
                let what = format!("no answer of gateway {gateway} within {waited} ms");
                (Rule::Bounded, Excuse::Time(PATIENCE_MS * 1_000), what)
            }
            Heard::Broken if open.purpose == Purpose::AfterProbe => {
                let what = format!("gateway {gateway} left a connection open that was of no use");
                (Rule::DrainedBody, Excuse::Any, format!("{what} ({why})"))
            }
            _ => return,
        };
        let lines = vec![open.line, line];
        let (record, during) = (open.record, (open.t, t));
        self.suspicions.push(Suspicion { rule, record, gateway, excuse, during, lines, what });
    }
}
