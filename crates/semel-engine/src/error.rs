use semel_store::StoreError;

/// Why an attempt got no answer. But for [`Interrupted`](EngineError::Interrupted), nothing was
/// executed and the same attempt may come again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The store could not be asked, and the policy is to fail closed.
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
    /// The task that drove the attempt ended early: the runtime was shut down, or a store
    /// panicked. The work may have been executed; the record tells, by the rules for an abandoned
    /// lease.
    #[error("the attempt was cut short, and its outcome is unknown")]
    Interrupted,
}
