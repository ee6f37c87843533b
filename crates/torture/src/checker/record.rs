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
    /// The first recorded outcome that anybody was told.
    pub(super) answer: Option<Known>,
    /// The first time that nobody knew, and the latest.
    pub(super) unknown: Option<(u64, u64)>,
    /// Each request that was told so: when it was sent, and when it was told.
    pub(super) unknowns: Vec<(Moment, Moment)>,
    pub(super) first_invoke: Option<u64>,
    /// When it was last heard of.
    pub(super) last_heard: u64,
    /// The first request of the last reads.
    pub(super) first_read: Option<Moment>,
    /// The latest.
    pub(super) last_read: Option<Moment>,
    /// The gateways that were asked in the end.
    pub(super) asked: Vec<usize>,
    /// The last word of each gateway that gave one.
    pub(super) last_words: Vec<(usize, Moment)>,
    pub(super) told: Told,
    /// The gateways that were asked for their last word, and refused the request for its body.
    pub(super) mistaken: Vec<usize>,
    /// At which gateways a claim of the record may have been on its way, from when until when.
    claims: Vec<(usize, u64, u64)>,
    /// Requests that heard nothing: at which gateway, since when and until when.
    left: Vec<(usize, u64, u64)>,
    /// Requests that were refused because another held the lease: since when and until when.
    rivals: Vec<(u64, u64)>,
    /// Requests that were told of the record when it had been executed and its outcome was not known.
    pub(super) retries: Vec<Heard>,
    /// All that was told while the store was full.
    pub(super) while_full: Vec<Heard>,
    /// The gateways that have told its recorded outcome.
    told_by: Vec<usize>,
    /// Replays, while the store was full, of gateways that cannot have had the outcome in their memory.
    pub(super) fresh_replays: Vec<Heard>,
}

/// What a request was told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) gateway: usize,
    pub(super) sent: Moment,
    pub(super) told: Moment,
    pub(super) is_outcome: bool,
}

/// How often something was told that a rule is about.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) outcomes: u64,
    pub(super) replays: u64,
    /// To requests with the right body that were sent when the recorded outcome had been told.
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
    /// Where its outcome was told first-hand, and not as a replay.
    pub(super) told_first_hand: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) t: u64,
    pub(super) status: u16,
    /// Of what it said.
    pub(super) digest: String,
    pub(super) line: u64,
}

/// An outcome that was told.
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
            last_heard: 0,
            first_read: None,
            last_read: None,
            asked: Vec::new(),
            last_words: Vec::new(),
            told: Told::default(),
            mistaken: Vec::new(),
            claims: Vec::new(),
            left: Vec::new(),
            rivals: Vec::new(),
            retries: Vec::new(),
            while_full: Vec::new(),
            told_by: Vec::new(),
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
        self.last_heard = self.last_heard.max(t);
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

    /// May another gateway than this one have been granted a lease between two moments?
    pub(super) fn may_be_claimed_elsewhere(&self, gateway: usize, from: u64, until: u64) -> bool {
        let is_within = |began: u64, ended: u64| began <= until && from <= ended;
        self.claims.iter().any(|(of, began, ended)| *of != gateway && is_within(*began, *ended))
    }

    /// A request was refused because another held the lease.
    pub(super) fn is_in_progress(&mut self, sent: u64, t: u64) {
        self.rivals.push((sent, t));
    }

    /// A gateway has refused to give its last word to this body.
    pub(super) fn mistakes(&mut self, gateway: usize) {
        if !self.mistaken.contains(&gateway) {
            self.mistaken.push(gateway);
        }
    }

    /// What becomes of the record was told to a request. Would it be excused, had that not been its outcome?
    pub(super) fn heard(&mut self, heard: Heard, purpose: Purpose, is_excused: bool) {
        if purpose == Purpose::Mismatch {
            self.told.mismatches += 1;
        } else if self.is_known_at(heard.sent.t) {
            self.told.after_outcome += u64::from(!is_excused);
        } else if !self.executions.is_empty() {
            self.retries.push(heard);
        }
    }

    /// A gateway told the recorded outcome. Had it to ask the store for it? It had not executed it, nor told it before.
    pub(super) fn is_first_told_by(&mut self, gateway: usize) -> bool {
        let is_new = !self.told_by.contains(&gateway);
        if is_new {
            self.told_by.push(gateway);
        }
        is_new && self.recorded().is_some_and(|execution| execution.gateway != gateway)
    }

    /// Had its recorded outcome been told by then?
    pub(super) fn is_known_at(&self, t: u64) -> bool {
        self.answer.as_ref().is_some_and(|known| known.at.t < t)
    }

    /// Somebody heard nothing, and is gone.
    pub(super) fn left(&mut self, gateway: usize, sent: u64, t: u64) {
        self.left.push((gateway, sent, t));
    }

    /// Did somebody who asked for this execution, or may have, leave before it ended? A request may arrive
    /// when its client is gone, but not long after.
    pub(super) fn is_left_alone(&self, execution: &Execution) -> bool {
        let (began, end) = (execution.began, execution.end());
        self.left.iter().any(|(gateway, sent, gone)| {
            let is_in_time = *sent <= began && began <= *gone + SLACK && *gone < end;
            *gateway == execution.gateway && is_in_time
        })
    }

    /// Did anybody else want the lease while this was executed?
    pub(super) fn is_rivalled(&self, execution: &Execution) -> bool {
        let (began, end) = (execution.began, execution.end());
        self.rivals.iter().any(|(sent, until)| *sent <= end && began <= *until)
    }

    /// Nobody knew.
    pub(super) fn is_unknown(&mut self, sent: Moment, told: Moment) {
        let (first, latest) = self.unknown.unwrap_or((told.t, told.t));
        self.unknown = Some((first.min(told.t), latest.max(told.t)));
        self.unknowns.push((sent, told));
    }

    /// A gateway was asked in the end, and there is nothing more to ask.
    pub(super) fn last_word(&mut self, gateway: usize, at: Moment) {
        if !self.has_last_word(gateway) {
            self.last_words.push((gateway, at));
        }
    }

    pub(super) fn has_last_word(&self, gateway: usize) -> bool {
        self.last_words.iter().any(|(known, _)| *known == gateway)
    }

    /// Had its outcome been told before anybody was asked for a last word?
    pub(super) fn was_known_before_reads(&self) -> bool {
        let first_read = self.first_read.map_or(0, |first| first.t);
        self.answer.as_ref().is_some_and(|answer| answer.at.t < first_read)
    }

    /// How many gateways have given their last word, or refused to.
    pub(super) fn answered(&self) -> usize {
        let only_mistaken = self.mistaken.iter().filter(|gateway| !self.has_last_word(**gateway));
        self.last_words.len() + only_mistaken.count()
    }

    /// Since when a promotion may have taken the recorded outcome away: it may have been told from memory
    /// first when it was gone already.
    pub(super) fn losable_since(&self, told: u64) -> u64 {
        self.recorded().map_or(told, |execution| execution.began.min(told))
    }

    /// Had another lease been granted after that of this execution, and been executed under, by then?
    pub(super) fn is_replaced(&self, execution: &Execution, t: u64) -> bool {
        let is_later = |other: &Execution| other.fence > execution.fence && other.began < t;
        self.executions.iter().any(is_later)
    }

    /// The execution whose outcome is recorded.
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
        Self { nonce, gateway, fence, variant, began, line, ended: None, told_first_hand: None }
    }

    /// Did it end with something to keep?
    pub(super) fn has_outcome(&self) -> bool {
        self.ended.as_ref().is_some_and(|ended| (200..500).contains(&ended.status))
    }

    /// When it ended; if nobody knows, never.
    pub(super) fn end(&self) -> u64 {
        self.ended.as_ref().map_or(u64::MAX, |ended| ended.t)
    }

    /// Was it at work from `from` until `until`? One of which nobody knows when it ended may have ended then.
    pub(super) fn goes_on(&self, from: u64, until: u64) -> bool {
        self.began <= from && self.ended.as_ref().is_some_and(|ended| until <= ended.t)
    }

    /// Did it end, before `t`, in a way that hands its lease back?
    pub(super) fn is_released(&self, route: Route, t: u64) -> bool {
        self.ended.as_ref().is_some_and(|ended| {
            let is_unknown = ended.status == 0 && route == Route::Reexecute;
            ended.t <= t && (ended.status >= 500 || is_unknown)
        })
    }
}
