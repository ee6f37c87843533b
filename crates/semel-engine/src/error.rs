use semel_store::StoreError;

use crate::TooManyKeys;

/// The reason why an attempt got no answer. Except for [`Interrupted`](EngineError::Interrupted), nothing was
/// executed and the request may be retried.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store failed, and the policy is to fail closed.
    #[error("nothing was executed: {0}")]
    Store(
        #[from]
        #[source]
        StoreError,
    ),
    /// [`Engine::shutdown`](crate::Engine::shutdown) has begun.
    #[error("nothing was executed: the engine is shutting down")]
    ShuttingDown,
    /// [`Limits::executions_max`](crate::Limits::executions_max) was reached (I10).
    #[error("nothing was executed: {max} executions are already running")]
    TooManyExecutions {
        /// The limit.
        max: usize,
    },
    /// The attempt's scope has used up what it may take of the engine:
    /// [`ScopeLimits`](crate::ScopeLimits) (I10).
    #[error("nothing was executed: {0}")]
    TooManyKeys(#[from] TooManyKeys),
    /// The task that drove the attempt ended early: the runtime was shut down, or a store
    /// panicked. The work may have been executed; a retry gets the answer by the rules for an abandoned
    /// lease.
    #[error("the attempt was cut short, and its outcome is unknown")]
    Interrupted,
}
