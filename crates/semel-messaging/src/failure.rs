use std::error::Error;

use semel_core::{Outcome, Reply};

/// Any error.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Why a handler has not done its work. Any error is [`Later`](Self::Later), so `?` lets the message come again.
#[derive(Debug)]
pub enum Failure {
    /// It surely did not take effect, and may be tried again.
    Later(BoxError),
    /// It will never succeed.
    Dead(String),
    /// It may or may not have taken effect, such as an e-mail whose acceptance was not acknowledged.
    Unknown(String),
}

/// How many bytes of a reason are kept.
const REASON_MAX: usize = 1024;

// === impl Failure ===

impl Failure {
    /// The outcome of an attempt: the last that is allowed fails for good.
    pub(crate) fn outcome(self, attempts: u64, attempts_max: u64) -> Outcome {
        match self {
            Self::Later(error) if attempts >= attempts_max => last(&error, attempts),
            Self::Later(error) => Outcome::FailedForNow(reply(&error.to_string())),
            Self::Dead(reason) => Outcome::Failed(reply(&reason)),
            Self::Unknown(reason) => Outcome::Unknown(reply(&reason)),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Later(error.into())
    }
}

/// The outcome of a message that failed at its last attempt.
pub(crate) fn last(error: &BoxError, attempts: u64) -> Outcome {
    Outcome::Failed(reply(&format!("{error} (attempt {attempts}, the last)")))
}

fn reply(reason: &str) -> Reply {
    let end = reason.floor_char_boundary(REASON_MAX);
    Reply::new(reason[..end].to_owned())
}
