use semel_core::{Claim, Record, Refusal};

use crate::{Health, Released, Renewed, Settled, StoreError, Swept};

/// An answer in one word. The set is closed, and so is the set of label values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
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
    TimedOut,
    Corrupt,
    Misconfigured,
}

/// The answer of some verb.
pub(super) trait Answer {
    /// Everything the verb may answer, errors aside.
    const WORDS: &'static [Word];

    fn word(&self) -> Word;
}

// === impl Word ===

impl Word {
    /// What any verb may answer instead.
    pub(super) const ERRORS: &'static [Self] =
        &[Self::Unavailable, Self::Declined, Self::TimedOut, Self::Corrupt, Self::Misconfigured];

    pub(super) fn of<T: Answer>(result: &Result<T, StoreError>) -> Self {
        match result {
            Ok(answer) => answer.word(),
            Err(StoreError::Unavailable { .. }) => Self::Unavailable,
            Err(StoreError::Declined { .. }) => Self::Declined,
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
    const WORDS: &'static [Word] =
        &[Word::Execute, Word::Replay, Word::InFlight, Word::Mismatch, Word::Unknown];

    fn word(&self) -> Word {
        match self {
            Self::Execute(_) => Word::Execute,
            Self::Replay { .. } => Word::Replay,
            Self::InFlight { .. } => Word::InFlight,
            Self::Mismatch => Word::Mismatch,
            Self::Unknown => Word::Unknown,
        }
    }
}

impl Answer for Renewed {
    const WORDS: &'static [Word] = &[Word::Renewed, Word::Settled, Word::Superseded, Word::Gone];

    fn word(&self) -> Word {
        match self {
            Self::Until { .. } => Word::Renewed,
            Self::Refused(refusal) => Word::of_refusal(refusal),
        }
    }
}

impl Answer for Settled {
    const WORDS: &'static [Word] = &[Word::Recorded, Word::Settled, Word::Superseded, Word::Gone];

    fn word(&self) -> Word {
        match self {
            Self::Recorded => Word::Recorded,
            Self::Refused(refusal) => Word::of_refusal(refusal),
        }
    }
}

impl Answer for Released {
    const WORDS: &'static [Word] = &[Word::Done, Word::Settled, Word::Superseded, Word::Gone];

    fn word(&self) -> Word {
        match self {
            Self::Done => Word::Done,
            Self::Refused(refusal) => Word::of_refusal(refusal),
        }
    }
}

impl Answer for Option<Record> {
    const WORDS: &'static [Word] = &[Word::Found, Word::Absent];

    fn word(&self) -> Word {
        if self.is_some() { Word::Found } else { Word::Absent }
    }
}

impl Answer for Swept {
    const WORDS: &'static [Word] = &[Word::Swept];

    fn word(&self) -> Word {
        Word::Swept
    }
}

impl Answer for Health {
    const WORDS: &'static [Word] = &[Word::Healthy];

    fn word(&self) -> Word {
        Word::Healthy
    }
}
