use semel_core::{Attempt, Claim, Fingerprint, Settlement, Timestamp};

/// The part of a settled record that answers a claim. A settled record never changes until it expires (I2), so a copy is as
/// good as the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledCopy {
    /// The fingerprint that an attempt must have for a replay.
    pub fingerprint: Fingerprint,
    /// The outcome.
    pub settlement: Settlement,
    /// When the record expires, by the clock of its store.
    pub expires: Timestamp,
}

// === impl SettledCopy ===

impl SettledCopy {
    /// The answer to an attempt.
    pub(crate) fn answer(self, attempt: &Attempt) -> Claim {
        if self.fingerprint != attempt.fingerprint() {
            return Claim::Mismatch;
        }
        Claim::Replay { settlement: self.settlement, expires: self.expires }
    }
}
