//! What is known of one record.

use super::SLACK;
use crate::history::{Purpose, Route};

/// How long after a request was there, or was over, a claim for it may still be granted, in microseconds: it is sent a
/// few times, its gateway may be frozen, and it may be under way for half a minute.
pub(super) const LATE: u64 = 45_000_000;

/// One record, by its scope, route and key.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) scope: u8,
    pub(super) route: Route,
    pub(super) key: String,
    pub(super) executions: Vec<Execution>,
    /// The first recorded outcome that was answered.
    pub(super) answer: Option<Known>,
    /// The first and the latest *unknown* answer.
    pub(super) unknown: Option<(u64, u64)>,
    /// Each request with such an answer: when it was sent, and when it was answered.
    pub(super) unknowns: Vec<(Moment, Moment)>,
    pub(super) first_invoke: Option<u64>,
    /// The latest event of this record.
    pub(super) last_seen: u64,
    /// The first request of the last reads.
    pub(super) first_read: Option<Moment>,
    /// The latest.
    pub(super) last_read: Option<Moment>,
    /// The gateways that were asked in the end.
    pub(super) asked: Vec<usize>,
    /// The final answer of each gateway that gave one.
    pub(super) final_answers: Vec<(usize, Moment)>,
    pub(super) answers: AnswerCounts,
    /// The gateways that refused the request of the last reads for its body.
    pub(super) mistaken: Vec<usize>,
    /// At which gateways a claim of the record may have been on its way, from when until when.
    claims: Vec<(usize, u64, u64)>,
    /// Requests without an answer: the gateway, since when and until when.
    left: Vec<(usize, u64, u64)>,
    /// Requests that were refused because another held the lease: since when and until when.
    rivals: Vec<(u64, u64)>,
    /// Requests with an answer about the record after its execution, before its outcome was known.
    pub(super) retries: Vec<Response>,
    /// All answers while the store was full.
    pub(super) while_full: Vec<Response>,
    /// The gateways that have answered its recorded outcome.
    answered_by: Vec<usize>,
    /// Replays, while the store was full, of gateways that cannot have had the outcome in their memory.
    pub(super) fresh_replays: Vec<Response>,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    pub(super) gateway: usize,
    pub(super) sent: Moment,
    pub(super) answered: Moment,
    pub(super) is_outcome: bool,
}

/// Numbers of answers that rules are about.
#[derive(Debug, Default)]
pub(super) struct AnswerCounts {
    pub(super) outcomes: u64,
    pub(super) replays: u64,
    /// To requests with the right body that were sent after an answer with the recorded outcome.
    pub(super) after_outcome: u64,
    /// To other bodies.
    pub(super) mismatches: u64,
}

/// A run of the upstream.
#[derive(Clone, Debug)]
pub(super) struct Execution {
    pub(super) nonce: String,
    pub(super) gateway: usize,
    pub(super) fence: Option<u64>,
    pub(super) variant: u8,
    pub(super) began: u64,
    pub(super) line: u64,
    pub(super) ended: Option<Ended>,
    /// The line of the answer that is not a replay.
    pub(super) direct_answer: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) t: u64,
    pub(super) status: u16,
    /// Of what it said.
    pub(super) digest: String,
    pub(super) line: u64,
}

/// An outcome that was answered.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) nonce: String,
    pub(super) digest: String,
    pub(super) at: Moment,
}

/// When, and where in the history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) t: u64,
    pub(super) line: u64,
}

// === impl Record ===

impl Record {
    pub(super) fn new(scope: u8, route: Route, key: String) -> Self {
        Self {
            scope,
            route,
            key,
            executions: Vec::new(),
            answer: None,
            unknown: None,
            unknowns: Vec::new(),
            first_invoke: None,
            last_seen: 0,
            first_read: None,
            last_read: None,
            asked: Vec::new(),
            final_answers: Vec::new(),
            answers: AnswerCounts::default(),
            mistaken: Vec::new(),
            claims: Vec::new(),
            left: Vec::new(),
            rivals: Vec::new(),
            retries: Vec::new(),
            while_full: Vec::new(),
            answered_by: Vec::new(),
            fresh_replays: Vec::new(),
        }
    }

    pub(super) fn invoked(&mut self, t: u64, purpose: Purpose, gateway: usize, line: u64) {
        self.first_invoke.get_or_insert(t);
        self.may_claim(gateway, t);
        if purpose == Purpose::Read {
            if !self.asked.contains(&gateway) {
                self.asked.push(gateway);
            }
            self.first_read.get_or_insert(Moment { t, line });
            self.last_read = Some(Moment { t, line });
        }
    }

    /// A request is over.
    pub(super) fn closed(&mut self, gateway: usize, t: u64) {
        self.last_seen = self.last_seen.max(t);
        self.may_claim(gateway, t);
    }

    /// A gateway has a request of the record now, and may be granted what it claimed for that until later.
    fn may_claim(&mut self, gateway: usize, t: u64) {
        let until = t.saturating_add(LATE);
        let is_on = |(of, _, until): &&mut (usize, u64, u64)| *of == gateway && t <= *until;
        match self.claims.iter_mut().rev().find(is_on) {
            Some(known) => known.2 = known.2.max(until),
            None => self.claims.push((gateway, t, until)),
        }
    }

    /// True if another gateway may have been granted a lease between two moments.
    pub(super) fn may_be_claimed_elsewhere(&self, gateway: usize, from: u64, until: u64) -> bool {
        let is_within = |began: u64, ended: u64| began <= until && from <= ended;
        self.claims.iter().any(|(of, began, ended)| *of != gateway && is_within(*began, *ended))
    }

    /// A request was refused because another held the lease.
    pub(super) fn is_in_progress(&mut self, sent: u64, t: u64) {
        self.rivals.push((sent, t));
    }

    /// A gateway has refused this body in the last reads.
    pub(super) fn mistakes(&mut self, gateway: usize) {
        if !self.mistaken.contains(&gateway) {
            self.mistaken.push(gateway);
        }
    }

    /// Notes an answer that shows the state of the record. `is_excused`: a violation would have been excused.
    pub(super) fn note_response(&mut self, response: Response, purpose: Purpose, is_excused: bool) {
        if purpose == Purpose::Mismatch {
            self.answers.mismatches += 1;
        } else if self.is_known_at(response.sent.t) {
            self.answers.after_outcome += u64::from(!is_excused);
        } else if !self.executions.is_empty() {
            self.retries.push(response);
        }
    }

    /// Notes that a gateway answered the recorded outcome. True if it had to read it from the store: it had neither
    /// executed nor answered it before.
    pub(super) fn is_first_answer_of(&mut self, gateway: usize) -> bool {
        let is_new = !self.answered_by.contains(&gateway);
        if is_new {
            self.answered_by.push(gateway);
        }
        is_new && self.recorded().is_some_and(|execution| execution.gateway != gateway)
    }

    /// True if its recorded outcome had been answered by then.
    pub(super) fn is_known_at(&self, t: u64) -> bool {
        self.answer.as_ref().is_some_and(|known| known.at.t < t)
    }

    /// A client left without an answer.
    pub(super) fn left(&mut self, gateway: usize, sent: u64, t: u64) {
        self.left.push((gateway, sent, t));
    }

    /// True if a client that requested this execution, or may have, left before it ended. A request may arrive after
    /// its client has left, but not long after.
    pub(super) fn is_left_alone(&self, execution: &Execution) -> bool {
        let (began, end) = (execution.began, execution.end());
        self.left.iter().any(|(gateway, sent, gone)| {
            let is_in_time = *sent <= began && began <= *gone + SLACK && *gone < end;
            *gateway == execution.gateway && is_in_time
        })
    }

    /// True if another request wanted the lease during this execution.
    pub(super) fn is_rivalled(&self, execution: &Execution) -> bool {
        let (began, end) = (execution.began, execution.end());
        self.rivals.iter().any(|(sent, until)| *sent <= end && began <= *until)
    }

    /// Notes an *unknown* answer.
    pub(super) fn is_unknown(&mut self, sent: Moment, answered: Moment) {
        let (first, latest) = self.unknown.unwrap_or((answered.t, answered.t));
        self.unknown = Some((first.min(answered.t), latest.max(answered.t)));
        self.unknowns.push((sent, answered));
    }

    /// A gateway was asked in the end, and there is nothing more to ask.
    pub(super) fn note_final_answer(&mut self, gateway: usize, at: Moment) {
        if !self.has_final_answer(gateway) {
            self.final_answers.push((gateway, at));
        }
    }

    pub(super) fn has_final_answer(&self, gateway: usize) -> bool {
        self.final_answers.iter().any(|(known, _)| *known == gateway)
    }

    /// True if its outcome had been answered before the last reads.
    pub(super) fn was_known_before_reads(&self) -> bool {
        let first_read = self.first_read.map_or(0, |first| first.t);
        self.answer.as_ref().is_some_and(|answer| answer.at.t < first_read)
    }

    /// The number of gateways with a final answer, or a refusal of the body.
    pub(super) fn finished_gateways(&self) -> usize {
        let only_mistaken =
            self.mistaken.iter().filter(|gateway| !self.has_final_answer(**gateway));
        self.final_answers.len() + only_mistaken.count()
    }

    /// Since when a promotion may have removed the recorded outcome: the first answer may have come from a cache
    /// after that.
    pub(super) fn losable_since(&self, answered: u64) -> u64 {
        self.recorded().map_or(answered, |execution| execution.began.min(answered))
    }

    /// True if by then an execution had begun under a later lease than that of this execution.
    pub(super) fn is_replaced(&self, execution: &Execution, t: u64) -> bool {
        let is_later = |other: &Execution| other.fence > execution.fence && other.began < t;
        self.executions.iter().any(is_later)
    }

    /// The execution with the recorded outcome.
    pub(super) fn recorded(&self) -> Option<&Execution> {
        let answer = self.answer.as_ref()?;
        self.executions.iter().find(|execution| execution.nonce == answer.nonce)
    }
}

// === impl Execution ===

impl Execution {
    pub(super) fn begun(
        nonce: String,
        gateway: usize,
        fence: Option<u64>,
        variant: u8,
        at: Moment,
    ) -> Self {
        let (began, line) = (at.t, at.line);
        Self { nonce, gateway, fence, variant, began, line, ended: None, direct_answer: None }
    }

    /// True if it ended with an outcome to keep.
    pub(super) fn has_outcome(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| (200..500).contains(&ended.status))
    }

    /// When it ended; never, if that is unknown.
    pub(super) fn end(&self) -> u64 {
        self.ended.as_ref().map_or(u64::MAX, |ended| ended.t)
    }

    /// True if it ran from `from` until `until`. One with an unknown end may have ended then.
    pub(super) fn goes_on(&self, from: u64, until: u64) -> bool {
        self.began <= from && self.ended.as_ref().is_some_and(|ended| until <= ended.t)
    }

    /// True if it ended before `t` with a release of its lease.
    pub(super) fn is_released(&self, route: Route, t: u64) -> bool {
        self.ended.as_ref().is_some_and(|ended| {
            let is_unknown = ended.status == 0 && route == Route::Reexecute;
            ended.t <= t && (ended.status >= 500 || is_unknown)
        })
    }
}
