//! Checks of the answers to clients, line by line.

use super::record::{self, Ended, Execution, Known, Moment};
use super::{AFTERMATH, Checker, Excuse, Open, RequestEnd, Rule, Suspicion};
use crate::history::{Effect, Event, Purpose, Route};

/// A client that waits so long for an answer should have had one.
pub(super) const ANSWER_TIMEOUT_MS: u64 = 10_000;

/// A refusal, as answered.
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

/// True if a request like this gets a replay of the outcome if there is one.
fn may_ask_for_replay(purpose: Purpose, code: &str) -> bool {
    let is_whole = !matches!(purpose, Purpose::Mismatch | Purpose::Probe);
    is_whole && matches!(code, STORE_UNAVAILABLE | "outcome_unknown" | "request_in_progress")
}

// === impl Open ===

impl Open {
    fn response(&self, line: u64, t: u64, is_outcome: bool) -> record::Response {
        let sent = Moment { t: self.t, line: self.line };
        let answered = Moment { t, line };
        record::Response { gateway: self.gateway, sent, answered, is_outcome }
    }
}

// === impl Refusal ===

impl Refusal<'_> {
    /// True if the answer shows the state of the record. Other answers do not depend on it.
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
    pub(super) fn on_outcome(&mut self, line: u64, t: u64, open: Open, event: Event) {
        let Event::Ok { effect, digest, cookies, stored, .. } = event else { return };
        let lines = vec![open.line, line];
        self.note_while_full(line, t, open, true);
        self.note_answer(open, open.response(line, t, true));
        let record = &mut self.records[open.record];
        let during = (record.first_invoke.unwrap_or(open.t), t);
        record.answers.outcomes += 1;
        record.answers.replays += u64::from(effect.replayed);
        self.report.outcomes += 1;
        if !self.is_answered_to_its_requester(t, open, &effect, &lines) {
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
        if !self.equals_the_upstreams_reply(open, &effect, &lines) {
            return;
        }
        let Effect { nonce, replayed, .. } = effect;
        if !replayed {
            self.on_direct_answer(line, open, &nonce);
        }
        if stored == "yes" {
            self.on_recorded(line, t, open, Known { nonce, digest, at: Moment { t, line } });
        } else {
            self.on_unrecorded(t, open, &nonce, &stored, lines);
        }
    }

    /// Checks that a reply belongs to the client that got it.
    fn is_answered_to_its_requester(
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

    /// Checks that it is the outcome of an execution of this record, as the upstream sent it. No loss of a record can
    /// change that.
    fn equals_the_upstreams_reply(&mut self, open: Open, effect: &Effect, lines: &[u64]) -> bool {
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
        let what = format!("{nonce} was answered as {said}, and ended as {ended:?}");
        let lines = [lines, &[*line]].concat();
        self.convict(Rule::OneAnswer, open.record, lines, what);
        false
    }

    /// Only the request that executed gets the outcome directly, and only once.
    fn on_direct_answer(&mut self, line: u64, open: Open, nonce: &str) {
        let executions = &mut self.records[open.record].executions;
        let Some(execution) = executions.iter_mut().find(|one| one.nonce == nonce) else { return };
        if let Some(before) = execution.direct_answer.replace(line) {
            let what = format!("{nonce} was answered again, and not as a replay");
            self.convict(Rule::OneAnswer, open.record, vec![before, open.line, line], what);
        }
    }

    fn on_recorded(&mut self, line: u64, t: u64, open: Open, known: Known) {
        let record = &mut self.records[open.record];
        if open.purpose == Purpose::Read {
            record.note_final_answer(open.gateway, Moment { t, line });
        }
        let is_fresh = record.is_first_answer_of(open.gateway);
        let Some(first) = &record.answer else {
            record.answer = Some(known);
            return;
        };
        if is_fresh && self.faults.was_full(open.t, t) {
            record.fresh_replays.push(open.response(line, t, true));
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
    fn on_unrecorded(&mut self, t: u64, open: Open, nonce: &str, stored: &str, lines: Vec<u64>) {
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
            what: format!("{nonce} was answered unrecorded, and the store was up"),
        });
    }

    pub(super) fn on_failure(&mut self, line: u64, t: u64, open: Open, refusal: &Refusal<'_>) {
        let Refusal { status, code, .. } = *refusal;
        *self.report.refusals.entry(code.to_owned()).or_default() += 1;
        if refusal.tells_of_record(open.purpose) {
            self.note_answer(open, open.response(line, t, false));
        }
        if may_ask_for_replay(open.purpose, code) {
            self.note_while_full(line, t, open, false);
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
                return self.on_unfinished(line, t, open, code);
            }
            (_, "request_in_progress") => return self.on_unfinished(line, t, open, code),
            (_, "upstream") if status == 503 => return self.on_released(line, t, open, refusal),
            _ => Rule::Bounded,
        };
        if (open.purpose, rule) == (Purpose::Read, Rule::MismatchInert) {
            self.records[open.record].mistakes(open.gateway);
        }
        let what = format!("{status} {code} for a request of this kind ({:?})", open.purpose);
        let from = self.records[open.record].first_invoke.unwrap_or(open.t);
        self.accuse(rule, open.record, (from, t), vec![open.line, line], what);
    }

    /// The upstream answered that nothing happened. That is not recorded, so only the request that executed may get
    /// it.
    fn on_released(&mut self, line: u64, t: u64, open: Open, refusal: &Refusal<'_>) {
        let Some(effect) = &refusal.effect else { return };
        let lines = vec![open.line, line];
        if !self.is_answered_to_its_requester(t, open, effect, &lines)
            || !self.equals_the_upstreams_reply(open, effect, &lines)
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
            let what =
                format!("{nonce} says that nothing happened, and was answered to another request");
            return self.convict(Rule::OneAnswer, open.record, lines, what);
        }
        self.on_direct_answer(line, open, nonce);
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

    /// Keeps an answer that was given while the store was full.
    fn note_while_full(&mut self, line: u64, t: u64, open: Open, is_outcome: bool) {
        if self.faults.was_full(t, t) {
            self.records[open.record].while_full.push(open.response(line, t, is_outcome));
        }
    }

    /// True if the upstream closed the connection, as it does on purpose, during the execution for this request.
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
    fn on_unfinished(&mut self, line: u64, t: u64, open: Open, code: &str) {
        let record = &mut self.records[open.record];
        if code == "request_in_progress" {
            record.is_in_progress(open.t, t);
        } else {
            let answered = Moment { t, line };
            record.is_unknown(Moment { t: open.t, line: open.line }, answered);
            if open.purpose == Purpose::Read {
                record.note_final_answer(open.gateway, answered);
            }
        }
        if let Some(known) = record.answer.as_ref().filter(|known| known.at.t < open.t) {
            let what =
                format!("{code}, after {} had been answered as its recorded outcome", known.nonce);
            let lines = vec![known.at.line, open.line, line];
            let (rule, during) = (Rule::SettledIsFinal, (record.losable_since(known.at.t), t));
            if code == "request_in_progress" && self.may_be_unaware(open) {
                let Open { record, gateway, .. } = open;
                let excuse = Excuse::Unanswered(open.t);
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

    /// True if the process itself executed the key. Then it does not need the store, and may not know yet that its
    /// settlement, or another one, is recorded.
    fn may_be_unaware(&self, open: Open) -> bool {
        let record = &self.records[open.record];
        record.executions.iter().any(|execution| {
            let is_own = execution.gateway == open.gateway && execution.began <= open.t;
            let is_released = execution.is_released(record.route, open.t);
            let from = execution.began;
            is_own && !is_released && !self.faults.has_ended(open.gateway, from, open.t)
        })
    }

    /// Counts an answer that shows the state of the record. It is no trial if a violation would have been excused.
    fn note_answer(&mut self, open: Open, response: record::Response) {
        let from = open.t.saturating_sub(AFTERMATH);
        let is_excused = self.may_be_unaware(open)
            && self.faults.store_loss(open.gateway, from, response.answered.t).is_some();
        self.records[open.record].note_response(response, open.purpose, is_excused);
    }

    pub(super) fn on_no_answer(
        &mut self,
        line: u64,
        t: u64,
        open: Open,
        end: RequestEnd,
        why: &str,
    ) {
        self.report.unanswered += 1;
        let gateway = open.gateway;
        let (rule, excuse, what) = match end {
            RequestEnd::NothingFor(waited) if waited >= ANSWER_TIMEOUT_MS => {
                let what = format!("no answer of gateway {gateway} within {waited} ms");
                (Rule::Bounded, Excuse::Time(ANSWER_TIMEOUT_MS * 1_000), what)
            }
            RequestEnd::Broken if open.purpose == Purpose::AfterProbe => {
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
