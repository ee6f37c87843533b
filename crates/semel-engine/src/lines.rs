//! The log lines about single attempts, each kind at most once a second: an outage of the store would otherwise
//! write lines for every request.

use semel_log::Throttle;
use tracing::Level;

use crate::EngineError;

/// The kinds of lines of one engine.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) too_many: Throttle,
    pub(crate) bypassed: Throttle,
    pub(crate) bypass_answered: Throttle,
    pub(crate) answered_unrecorded: Throttle,
    /// Apart from the others, which an outage causes in bulk: after these a further attempt executes again.
    pub(crate) answered_gone: Throttle,
    pub(crate) panicked: Throttle,
    pub(crate) ran_out: Throttle,
    pub(crate) lost: Throttle,
    pub(crate) adopted: Throttle,
    pub(crate) unacknowledged: Throttle,
    pub(crate) not_written: Throttle,
    pub(crate) written: Throttle,
    refused: [Throttle; REFUSALS],
}

/// The number of reasons to refuse an attempt, each with its own throttle.
const REFUSALS: usize = 5;

// === impl Lines ===

impl Default for Lines {
    fn default() -> Self {
        Self {
            too_many: Throttle::of("too many executions", Level::WARN),
            bypassed: Throttle::of("executing without protection", Level::WARN),
            bypass_answered: Throttle::of("answered without protection", Level::WARN),
            answered_unrecorded: Throttle::of("answered, not recorded", Level::WARN),
            answered_gone: Throttle::of("answered, record gone", Level::WARN),
            panicked: Throttle::of("the work ended without an outcome", Level::ERROR),
            ran_out: Throttle::of("the lease ran out unrenewed", Level::WARN),
            lost: Throttle::of("the lease was lost before the outcome was written", Level::WARN),
            adopted: Throttle::of("going on under a newer lease of this process", Level::INFO),
            unacknowledged: Throttle::of(
                "releasing a lease whose grant was not acknowledged",
                Level::INFO,
            ),
            not_written: Throttle::of("not yet written", Level::WARN),
            written: Throttle::of("written after retries", Level::INFO),
            refused: [
                Throttle::of("refused: store", Level::WARN),
                Throttle::of("refused: shutting down", Level::WARN),
                Throttle::of("refused: too many executions", Level::WARN),
                Throttle::of("refused: too many keys", Level::WARN),
                Throttle::of("refused: interrupted", Level::WARN),
            ],
        }
    }
}

impl Lines {
    /// The throttle of a reason for which an attempt got no answer.
    pub(crate) const fn refused(&self, error: &EngineError) -> &Throttle {
        &self.refused[match error {
            EngineError::Store(_) => 0,
            EngineError::ShuttingDown => 1,
            EngineError::TooManyExecutions { .. } => 2,
            EngineError::TooManyKeys(_) => 3,
            EngineError::Interrupted => 4,
        }]
    }
}
