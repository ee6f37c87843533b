use crate::{Fence, Fingerprint, Owner, RecordId, Timestamp};

/// The right to execute, for a bounded time.
///
/// Not `Clone`: the value is the right. Only stores make one, by way of
/// [`decide`](crate::decide), and every write to a record requires one, so an attempt that was answered
/// to wait or to replay has nothing to write with (traps 7 and 8).
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a lease that is dropped is abandoned: settle or release it"]
pub struct Lease {
    id: RecordId,
    fingerprint: Fingerprint,
    fence: Fence,
    owner: Owner,
    until: Timestamp,
    expires: Timestamp,
}

// === impl Lease ===

impl Lease {
    /// A lease as a store granted it.
    ///
    /// For stores, which get these parts from [`decide`](crate::decide) or from a server that
    /// decided alike.
    pub const fn new(
        id: RecordId,
        fingerprint: Fingerprint,
        fence: Fence,
        owner: Owner,
        until: Timestamp,
        expires: Timestamp,
    ) -> Self {
        Self { id, fingerprint, fence, owner, until, expires }
    }

    /// The record it is a lease of.
    pub const fn id(&self) -> RecordId {
        self.id
    }

    /// The request it was granted for.
    pub const fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// The number that outdates every earlier lease of the record.
    pub const fn fence(&self) -> Fence {
        self.fence
    }

    /// The owner that holds it.
    pub const fn owner(&self) -> Owner {
        self.owner
    }

    /// When it runs out unless renewed, on the store's clock.
    pub const fn until(&self) -> Timestamp {
        self.until
    }

    /// When the record expires, on the store's clock.
    pub const fn expires(&self) -> Timestamp {
        self.expires
    }

    /// Takes note of a renewal that the store has granted.
    pub fn renewed(&mut self, until: Timestamp, expires: Timestamp) {
        self.until = until;
        self.expires = expires;
    }
}
