//! What is known of one record.

use crate::history::{Purpose, Route};

/// One record, by its scope, route and key.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) scope: u8,
    pub(super) route: Route,
    pub(super) key: String,
    pub(super) executions: Vec<Execution>,
    /// The first recorded outcome that anybody was told.
    pub(super) answer: Option<Known>,
    /// The latest time that nobody knew.
    pub(super) unknown: Option<Moment>,
    pub(super) first_invoke: Option<u64>,
    /// The first request of the last reads.
    pub(super) first_read: Option<Moment>,
    /// The latest.
    pub(super) last_read: Option<Moment>,
    /// The last word of each gateway that gave one.
    pub(super) last_words: Vec<(usize, Moment)>,
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
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    pub(super) t: u64,
    pub(super) status: u16,
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
            first_invoke: None,
            first_read: None,
            last_read: None,
            last_words: Vec::new(),
        }
    }

    pub(super) fn invoked(&mut self, t: u64, purpose: Purpose, line: u64) {
        self.first_invoke.get_or_insert(t);
        if purpose == Purpose::Read {
            self.first_read.get_or_insert(Moment { t, line });
            self.last_read = Some(Moment { t, line });
        }
    }

    /// A gateway was asked in the end, and there is nothing more to ask.
    pub(super) fn last_word(&mut self, gateway: usize, at: Moment) {
        if self.last_words.iter().all(|(known, _)| *known != gateway) {
            self.last_words.push((gateway, at));
        }
    }

    /// The execution whose outcome is recorded.
    pub(super) fn recorded(&self) -> Option<&Execution> {
        let answer = self.answer.as_ref()?;
        self.executions.iter().find(|execution| execution.nonce == answer.nonce)
    }
}

// === impl Execution ===

impl Execution {
    /// When it ended; if nobody knows, never.
    pub(super) fn end(&self) -> u64 {
        self.ended.map_or(u64::MAX, |ended| ended.t)
    }

    /// Did it end, before `t`, in a way that hands its lease back?
    pub(super) fn is_released(&self, route: Route, t: u64) -> bool {
        self.ended.is_some_and(|ended| {
            let is_unknown = ended.status == 0 && route == Route::Reexecute;
            ended.t <= t && (ended.status >= 500 || is_unknown)
        })
    }
}
