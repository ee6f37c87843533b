use std::error::Error;
use std::time::Duration;

use crate::exhaustion::is_exhaustion;

/// Why a store could not do its work, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The verb had no effect: try again later, or answer that the store is down.
    #[error("the store is unavailable: {what}")]
    Unavailable {
        /// What failed, and the cure where one is known.
        what: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The store answered that it cannot do this now, and nothing took effect: a record that is locked by
    /// another program, or no memory for a new one. It is not down: other records, or other verbs, are
    /// served. Try again later.
    #[error("the store declines: {what}")]
    Declined {
        /// What stands in the way, and the cure where one is known.
        what: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// This process could not call the store: it is out of file descriptors or memory, or at its limit of concurrent
    /// calls. Nothing took effect, and the store may be healthy. Try again later.
    #[error("this process could not call the store: {what}")]
    NotAsked {
        /// What was attempted, and the cure where one is known.
        what: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// It is not known whether the verb took effect: repeat the same verb with the same
    /// attempt or lease to find out.
    #[error("the store did not answer for sure ({what}); the verb may have taken effect")]
    TimedOut {
        /// What was waited for, and for how long.
        what: String,
        /// The underlying error.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// Stored data cannot be read: an operator must intervene. Nothing was executed.
    #[error("the store is damaged: {what}")]
    Corrupt {
        /// Which file or record, and the cure.
        what: String,
    },
    /// The store cannot work as it was set up: correct the setting and start again.
    #[error("the store is set up wrongly: {what}")]
    Misconfigured {
        /// Which setting, and the cure.
        what: String,
    },
}

// === impl StoreError ===

impl StoreError {
    /// [`Unavailable`](Self::Unavailable) without an underlying error.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), source: None }
    }

    /// [`NotAsked`](Self::NotAsked) without an underlying error.
    pub fn not_asked(what: impl Into<String>) -> Self {
        Self::NotAsked { what: what.into(), source: None }
    }

    /// [`TimedOut`](Self::TimedOut) at the deadline of a verb.
    pub fn deadline(verb: &str, deadline: Duration) -> Self {
        Self::TimedOut { what: format!("{verb} took longer than {deadline:?}"), source: None }
    }

    /// Whether the verb may have taken effect.
    pub const fn maybe_applied(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// Whether the same call may succeed later without intervention.
    pub const fn is_passing(&self) -> bool {
        match self {
            Self::Unavailable { .. }
            | Self::Declined { .. }
            | Self::NotAsked { .. }
            | Self::TimedOut { .. } => true,
            Self::Corrupt { .. } | Self::Misconfigured { .. } => false,
        }
    }

    /// Whether the store is down or unreachable, so that other callers should not wait for it. An answer of any
    /// kind is no outage: a circuit breaker that counted it would refuse all records for the trouble of
    /// one. Nor is a [local](Self::is_local) cause.
    pub fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TimedOut { .. }) && !self.is_local()
    }

    /// Whether the cause is this process, which is out of a resource, and not the store.
    pub fn is_local(&self) -> bool {
        match self {
            Self::NotAsked { .. } => true,
            Self::Unavailable { source: Some(source), .. }
            | Self::TimedOut { source: Some(source), .. } => is_exhaustion(&**source),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_time_out_leaves_the_effect_open() {
        assert!(StoreError::deadline("claim", Duration::from_secs(1)).maybe_applied());
        assert!(!StoreError::unavailable("no route").maybe_applied());
        assert!(StoreError::unavailable("no route").is_passing());
        assert!(!StoreError::Corrupt { what: "record".into() }.is_passing());
        assert!(!StoreError::Misconfigured { what: "path".into() }.is_passing());
    }

    #[test]
    fn a_declined_call_may_be_retried_and_is_no_outage() {
        let declined = StoreError::Declined { what: "no memory".into(), source: None };
        assert!(declined.is_passing() && !declined.is_outage() && !declined.maybe_applied());
        assert!(StoreError::unavailable("no route").is_outage());
        assert!(StoreError::deadline("claim", Duration::from_secs(1)).is_outage());
        assert!(!StoreError::Corrupt { what: "record".into() }.is_outage());
    }

    #[test]
    fn a_local_exhaustion_may_be_retried_and_is_no_outage() {
        let lack = || Some(std::io::Error::from_raw_os_error(24).into());
        let errors = [
            StoreError::not_asked("connecting"),
            StoreError::Unavailable { what: "connecting".into(), source: lack() },
            StoreError::TimedOut { what: "a write".into(), source: lack() },
        ];
        for error in errors {
            assert!(error.is_passing() && error.is_local() && !error.is_outage(), "{error}");
        }
        assert!(!StoreError::not_asked("connecting").maybe_applied());
        assert!(!StoreError::unavailable("no route").is_local());
    }
}
