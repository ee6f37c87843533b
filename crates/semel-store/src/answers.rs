//! The answers of a store's verbs, and how they follow from the core's transitions.

use semel_core::{Record, Refusal, State, Timestamp, Transition};

/// The answer to a renewal.
#[derive(Debug, PartialEq, Eq)]
pub enum Renewed {
    /// The lease is extended.
    Until {
        /// When it runs out unless renewed again.
        until: Timestamp,
        /// When the record expires.
        expires: Timestamp,
    },
    /// The lease no longer counts.
    Refused(Refusal),
}

/// The answer to a settlement.
#[derive(Debug, PartialEq, Eq)]
pub enum Settled {
    /// The outcome is recorded, now or by an earlier try.
    Recorded,
    /// The lease no longer counts; nothing was written.
    Refused(Refusal),
}

/// The answer to a release.
#[derive(Debug, PartialEq, Eq)]
pub enum Released {
    /// The lease is handed back, now or by an earlier try.
    Done,
    /// The lease no longer counts; nothing was written.
    Refused(Refusal),
}

/// What a sweep did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// How many expired records were deleted.
    pub deleted: usize,
    /// Whether to sweep again at once. `false` means that the whole store has been scanned.
    pub more: bool,
}

/// A store that can serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The store's clock.
    pub now: Timestamp,
    /// Which store it is, in a word or two: `memory`, `embedded`.
    pub kind: &'static str,
    /// A defect that does not keep the store from serving, and the cure.
    pub note: Option<String>,
}

/// An answer that follows from a [`Transition`], for stores that run the core themselves: each
/// gives the answer and the record to write first.
pub trait FromTransition: Sized {
    /// The answer, and what must be durable before it is given.
    fn from_transition(transition: Transition) -> (Self, Option<Record>);
}

impl FromTransition for Renewed {
    fn from_transition(transition: Transition) -> (Self, Option<Record>) {
        match transition {
            Transition::Write(record) => match record.state {
                State::Leased { until } => {
                    (Self::Until { until, expires: record.expires }, Some(record))
                }
                // A renewal leaves a record leased; anything else is no lease to go on with.
                _ => (Self::Refused(Refusal::Superseded), None),
            },
            Transition::Already => (Self::Refused(Refusal::Superseded), None),
            Transition::Refused(refusal) => (Self::Refused(refusal), None),
        }
    }
}

impl FromTransition for Settled {
    fn from_transition(transition: Transition) -> (Self, Option<Record>) {
        match transition {
            Transition::Write(record) => (Self::Recorded, Some(record)),
            Transition::Already => (Self::Recorded, None),
            Transition::Refused(refusal) => (Self::Refused(refusal), None),
        }
    }
}

impl FromTransition for Released {
    fn from_transition(transition: Transition) -> (Self, Option<Record>) {
        match transition {
            Transition::Write(record) => (Self::Done, Some(record)),
            Transition::Already => (Self::Done, None),
            Transition::Refused(refusal) => (Self::Refused(refusal), None),
        }
    }
}
