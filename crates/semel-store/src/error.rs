use std::error::Error;
use std::time::Duration;

/// Why a store could not do its work, by what the caller can do about it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The verb had no effect: try again later, or answer that the store is down.
    #[error("the store is unavailable: {what}")]
    Unavailable {
        /// What failed, and the cure where one is known.
        what: String,
        /// What lay beneath.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The store answered that it cannot do this now, and nothing took effect: a record that is locked by
    /// another program, or no memory for a new one. It is not away: other records, or other verbs, are
    /// served. Try again later.
    #[error("the store declines: {what}")]
    Declined {
        /// What stands in the way, and the cure where one is known.
        what: String,
        /// What lay beneath.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// The store did not say whether the verb took effect: repeat the same verb with the same
    /// attempt or lease to learn it.
    #[error("the store did not answer for sure ({what}); the verb may have taken effect")]
    TimedOut {
        /// What was waited for, and for how long.
        what: String,
        /// What lay beneath.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// What the store keeps cannot be read: an operator must look. Nothing was executed.
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
    /// Nothing was applied, and nothing lay beneath that is worth keeping.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), source: None }
    }

    /// The deadline passed.
    pub fn deadline(verb: &str, deadline: Duration) -> Self {
        Self::TimedOut { what: format!("{verb} took longer than {deadline:?}"), source: None }
    }

    /// May the verb have taken effect?
    pub const fn maybe_applied(&self) -> bool {
        matches!(self, Self::TimedOut { .. })
    }

    /// May the same call succeed later, without anybody mending anything?
    pub const fn is_passing(&self) -> bool {
        self.is_outage() || matches!(self, Self::Declined { .. })
    }

    /// Does it say that the store is away? Then others had better not wait for it as well. An answer,
    /// whatever it says, is not an outage: a circuit breaker that counted it would refuse everybody for
    /// what stands in the way of one.
    pub const fn is_outage(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::TimedOut { .. })
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
    fn what_a_store_declines_may_pass_and_is_no_outage() {
        let declined = StoreError::Declined { what: "no memory".into(), source: None };
        assert!(declined.is_passing() && !declined.is_outage() && !declined.maybe_applied());
        assert!(StoreError::unavailable("no route").is_outage());
        assert!(StoreError::deadline("claim", Duration::from_secs(1)).is_outage());
        assert!(!StoreError::Corrupt { what: "record".into() }.is_outage());
    }
}
