use semel_core::{Claim, Record, Refusal};

use crate::{Health, Released, Renewed, Settled, StoreError, Swept};

/// An answer in one word. The set is closed, and so is the set of label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Execute,
    Replay,
    InFlight,
    Mismatch,
    Unknown,
    Renewed,
    Recorded,
    Done,
    Settled,
    Superseded,
    Gone,
    Found,
    Absent,
    Swept,
    Healthy,
    Unavailable,
    Declined,
    NotAsked,
    TimedOut,
    Corrupt,
    Misconfigured,
}

/// The answer of some verb.
pub(super) trait Answer {
    /// Everything the verb may answer, errors aside.
    const LABELS: &'static [Label];

    fn label(&self) -> Label;
}

// === impl Label ===

impl Label {
    /// What any verb may answer instead.
    pub(super) const ERRORS: &'static [Self] = &[
        Self::Unavailable,
        Self::Declined,
        Self::NotAsked,
        Self::TimedOut,
        Self::Corrupt,
        Self::Misconfigured,
    ];

    pub(super) fn of<T: Answer>(result: &Result<T, StoreError>) -> Self {
        match result {
            Ok(answer) => answer.label(),
            Err(StoreError::Unavailable { .. }) => Self::Unavailable,
            Err(StoreError::Declined { .. }) => Self::Declined,
            Err(StoreError::NotAsked { .. }) => Self::NotAsked,
            Err(StoreError::TimedOut { .. }) => Self::TimedOut,
            Err(StoreError::Corrupt { .. }) => Self::Corrupt,
            Err(StoreError::Misconfigured { .. }) => Self::Misconfigured,
        }
    }

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Replay => "replay",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::Unknown => "unknown",
            Self::Renewed => "renewed",
            Self::Recorded => "recorded",
            Self::Done => "done",
            Self::Settled => "settled",
            Self::Superseded => "superseded",
            Self::Gone => "gone",
            Self::Found => "found",
            Self::Absent => "absent",
            Self::Swept => "swept",
            Self::Healthy => "healthy",
            Self::Unavailable => "unavailable",
            Self::Declined => "declined",
            Self::NotAsked => "not_asked",
            Self::TimedOut => "timed_out",
            Self::Corrupt => "corrupt",
            Self::Misconfigured => "misconfigured",
        }
    }

    const fn of_refusal(refusal: &Refusal) -> Self {
        match refusal {
            Refusal::Settled { .. } => Self::Settled,
            Refusal::Superseded => Self::Superseded,
            Refusal::Gone => Self::Gone,
        }
    }
}

// === impl Answer ===

impl Answer for Claim {
    const LABELS: &'static [Label] =
        &[Label::Execute, Label::Replay, Label::InFlight, Label::Mismatch, Label::Unknown];

    fn label(&self) -> Label {
        match self {
            Self::Execute(_) => Label::Execute,
            Self::Replay { .. } => Label::Replay,
            Self::InFlight { .. } => Label::InFlight,
            Self::Mismatch => Label::Mismatch,
            Self::Unknown => Label::Unknown,
        }
    }
}

impl Answer for Renewed {
    const LABELS: &'static [Label] =
        &[Label::Renewed, Label::Settled, Label::Superseded, Label::Gone];

    fn label(&self) -> Label {
        match self {
            Self::Until { .. } => Label::Renewed,
            Self::Refused(refusal) => Label::of_refusal(refusal),
        }
    }
}

impl Answer for Settled {
    const LABELS: &'static [Label] =
        &[Label::Recorded, Label::Settled, Label::Superseded, Label::Gone];

    fn label(&self) -> Label {
        match self {
            Self::Recorded => Label::Recorded,
            Self::Refused(refusal) => Label::of_refusal(refusal),
        }
    }
}

impl Answer for Released {
    const LABELS: &'static [Label] = &[Label::Done, Label::Settled, Label::Superseded, Label::Gone];

    fn label(&self) -> Label {
        match self {
            Self::Done => Label::Done,
            Self::Refused(refusal) => Label::of_refusal(refusal),
        }
    }
}

impl Answer for Option<Record> {
    const LABELS: &'static [Label] = &[Label::Found, Label::Absent];

    fn label(&self) -> Label {
        if self.is_some() { Label::Found } else { Label::Absent }
    }
}

impl Answer for Swept {
    const LABELS: &'static [Label] = &[Label::Swept];

    fn label(&self) -> Label {
        Label::Swept
    }
}

impl Answer for Health {
    const LABELS: &'static [Label] = &[Label::Healthy];

    fn label(&self) -> Label {
        Label::Healthy
    }
}
