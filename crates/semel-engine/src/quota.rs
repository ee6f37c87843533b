//! Quotas of scopes, so that one client cannot use up the capacity of an engine (I10, trap 25).

mod rate;
mod shares;

pub use rate::Rate;
pub use shares::{QuotaPermit, Quotas};

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::LazyLock;
use std::time::Duration;

/// The limits of one scope, within one engine: with N nodes the total is N times as much.
///
/// ```
/// use std::num::NonZero;
/// use semel_engine::{Rate, ScopeLimits};
///
/// let limits = ScopeLimits { new_keys: Some(Rate::per_second(NonZero::new(100).unwrap())), ..ScopeLimits::default() };
/// assert_eq!(limits.executions_max, 1_000);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScopeLimits {
    /// How many attempts of the scope may execute or settle at once.
    pub executions_max: u32,
    /// The rate of keys that the store does not know. `None` is unlimited.
    pub new_keys: Option<Rate>,
    /// The rate of records that the scope may begin. If the rate's time is the [`ttl`](semel_core::Policy::ttl) of the
    /// policy, at most twice the rate's number of records exist at once: the burst, and the permits that were refilled
    /// during the life of the first record. A released record lives for another `ttl` whenever it is claimed again,
    /// which does not count.
    pub records: Option<Rate>,
    /// The rate of reply bytes that the scope may record. They are counted when an outcome is settled. If they exceed
    /// the bytes that were left, new keys are refused until the deficit is refilled.
    pub record_bytes: Option<Rate>,
}

/// The scope that an attempt counts for, and its limits.
///
/// It may differ from the [`Scope`](semel_core::Scope) of the record: the caller decides what is counted together,
/// for example all requests of one client on one route.
#[derive(Clone, Copy, Debug)]
pub struct Quota {
    counted: u64,
    limits: ScopeLimits,
}

/// The limit of [`ScopeLimits`] that a scope has used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TooManyKeys {
    /// [`ScopeLimits::executions_max`].
    #[error("{max} executions of this scope are already running")]
    Executions {
        /// The limit.
        max: u32,
    },
    /// [`ScopeLimits::new_keys`].
    #[error("this scope has brought as many new keys as it may ({rate})")]
    NewKeys {
        /// The limit.
        rate: Rate,
        /// After how much time it may bring the next one.
        again_in: Duration,
    },
    /// [`ScopeLimits::records`].
    #[error("this scope has begun as many records as it may ({rate})")]
    Records {
        /// The limit.
        rate: Rate,
        /// After how much time it may begin the next one.
        again_in: Duration,
    },
    /// [`ScopeLimits::record_bytes`].
    #[error("this scope has recorded as many bytes of replies as it may ({rate})")]
    RecordBytes {
        /// The limit.
        rate: Rate,
        /// After how much time it may begin the next record.
        again_in: Duration,
    },
}

/// A secret of this process. Clients choose their credentials, and must not be able to construct two that count as
/// one, nor many that share a shard.
static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);

// === impl ScopeLimits ===

impl Default for ScopeLimits {
    fn default() -> Self {
        Self { executions_max: 1_000, new_keys: None, records: None, record_bytes: None }
    }
}

// === impl Quota ===

impl Quota {
    /// The quota of a scope. Values with the same hash count as the same scope.
    pub fn of(scope: impl Hash, limits: ScopeLimits) -> Self {
        Self { counted: SECRET.hash_one(scope), limits }
    }
}
