use crate::{Fingerprint, Owner, RecordId};

/// One arrival of a request or message with a key.
///
/// Not `Clone`: an attempt is claimed by one caller, which may repeat the claim after a time-out.
#[derive(Debug)]
pub struct Attempt {
    id: RecordId,
    fingerprint: Fingerprint,
    owner: Owner,
}

// === impl Attempt ===

impl Attempt {
    /// An attempt on the record `id` with the request's fingerprint, by a fresh `owner`.
    pub const fn new(id: RecordId, fingerprint: Fingerprint, owner: Owner) -> Self {
        Self { id, fingerprint, owner }
    }

    /// The record this attempt is about.
    pub const fn id(&self) -> RecordId {
        self.id
    }

    /// What the request must be equal in.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The owner of the attempt.
    pub const fn owner(&self) -> Owner {
        self.owner
    }
}
