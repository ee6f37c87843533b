use semel_core::{Attempt, Claim, Fingerprint, Settlement, Timestamp};

/// A settled record, as far as a claim needs it. It never changes until it expires (I2), so a copy is as
/// good as the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledCopy {
    /// What must be equal for its outcome to be replayed.
    pub fingerprint: Fingerprint,
    /// How it ended.
    pub settlement: Settlement,
    /// Until when the copy counts, by the clock of the record's store.
    pub expires: Timestamp,
}

// === impl SettledCopy ===

impl SettledCopy {
    /// What an attempt is told.
    pub(crate) fn answer(self, attempt: &Attempt) -> Claim {
        if self.fingerprint != attempt.fingerprint() {
            return Claim::Mismatch;
        }
        Claim::Replay { settlement: self.settlement, expires: self.expires }
    }
}
