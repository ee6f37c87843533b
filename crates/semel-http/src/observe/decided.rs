//! The decision on a request, in one word.

/// The decision on a request that is not passed through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decided {
    /// It was executed, and its outcome is kept.
    Executed,
    /// It was executed, and the store was lost before its outcome was kept.
    NotStored,
    /// It was executed, and may be again.
    Released,
    /// It was answered from the record.
    Replayed,
    /// Another attempt is executing.
    InFlight,
    /// The key belongs to another request.
    Mismatch,
    /// It is not known whether the work of another attempt happened.
    Unknown,
    /// The same of this attempt's own execution.
    Held,
    /// It was executed without protection.
    Bypassed,
    /// The service failed without a response.
    Failed,
    /// It needs a key and has none.
    KeyMissing,
    /// Its key is malformed.
    KeyInvalid,
    /// It is not known whose it is.
    ScopeMissing,
    /// Its body is larger than its route allows.
    BodyTooLarge,
    /// Its body broke off, or came too late.
    BodyBroken,
    /// The store cannot be reached.
    StoreUnavailable,
    /// The keys of tokens are not known.
    TokenKeysUnavailable,
    /// Its scope has used up its quota.
    TooManyKeys,
    /// A limit of the process is reached, or the process shuts down.
    Refused,
    /// Shadow mode: the first of its key.
    First,
    /// Shadow mode: it would have been replayed or refused as in flight.
    Duplicate,
    /// Shadow mode: the check was not possible.
    Unchecked,
}

// === impl Decided ===

impl Decided {
    /// Every decision, in the order of their discriminants.
    pub const ALL: &'static [Self] = &[
        Self::Executed,
        Self::NotStored,
        Self::Released,
        Self::Replayed,
        Self::InFlight,
        Self::Mismatch,
        Self::Unknown,
        Self::Held,
        Self::Bypassed,
        Self::Failed,
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::ScopeMissing,
        Self::BodyTooLarge,
        Self::BodyBroken,
        Self::StoreUnavailable,
        Self::TokenKeysUnavailable,
        Self::TooManyKeys,
        Self::Refused,
        Self::First,
        Self::Duplicate,
        Self::Unchecked,
    ];

    /// The word for it in metrics and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Executed => "executed",
            Self::NotStored => "not_stored",
            Self::Released => "released",
            Self::Replayed => "replayed",
            Self::InFlight => "in_flight",
            Self::Mismatch => "mismatch",
            Self::Unknown | Self::Held => "unknown",
            Self::Bypassed => "bypassed",
            Self::Failed => "failed",
            Self::KeyMissing => "key_missing",
            Self::KeyInvalid => "key_invalid",
            Self::ScopeMissing => "scope_missing",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyBroken => "body_broken",
            Self::StoreUnavailable => "store_unavailable",
            Self::TokenKeysUnavailable => "token_keys_unavailable",
            Self::TooManyKeys => "too_many_keys",
            Self::Refused => "refused",
            Self::First => "first",
            Self::Duplicate => "duplicate",
            Self::Unchecked => "unchecked",
        }
    }

    /// True if it needs an operator's attention (level `warn`).
    pub const fn is_alarming(self) -> bool {
        matches!(
            self,
            Self::NotStored
                | Self::Bypassed
                | Self::StoreUnavailable
                | Self::TokenKeysUnavailable
                | Self::Unknown
                | Self::Held
        )
    }

    /// True if every occurrence has a log line: the end of an execution that has begun, whose start has a line as
    /// well. These two lines give an operator the history of a record. All other decisions a client or an outage can
    /// cause without limit, so they have at most one line a second. `NotStored` is one of them: an outage of the store
    /// causes it for each request, and a start line without an end line means that the log does not know the end.
    pub(super) const fn ends_execution(self) -> bool {
        matches!(self, Self::Executed | Self::Released | Self::Held | Self::Failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_in_discriminant_order() {
        for (at, decided) in Decided::ALL.iter().enumerate() {
            assert_eq!(*decided as usize, at, "{decided:?}");
        }
    }
}
