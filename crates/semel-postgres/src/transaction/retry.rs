use std::error::Error;
use std::time::Duration;

use tokio_postgres::error::{DbError, Severity};

use super::BoxError;
use crate::OpenError;

/// Which failed transactions are retried, how often, and after what pause.
///
/// A transaction that was the victim of a deadlock or of a conflict (SQLSTATE 40P01, 40001) left nothing
/// behind, and a retry would probably succeed. So would one whose tables were changed under a prepared
/// statement. A transaction whose connection broke may have committed: the next claim finds out. Where no
/// connection could be made, nothing was sent.
///
/// With sqlx, a transaction whose tables were changed under a prepared statement is not retried:
/// the statement is in sqlx's cache, and would fail again on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// The maximum number of tries; one never retries.
    pub tries: u32,
    /// The first pause, which doubles with every try. It has a random factor, so that two conflicting
    /// transactions do not meet again.
    pub pause: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

/// The effect of a failed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was rolled back, and may succeed next time.
    Conflict,
    /// It was rolled back because a statement was prepared for tables that have changed since. The next
    /// try prepares it again.
    Outdated,
    /// The connection broke, or the server did not respond in time.
    Lost,
    /// There was no connection, so nothing was begun.
    NotConnected,
    /// It was rolled back, and would fail again.
    Final,
}

/// The server did not respond in time. Its connection must be closed.
#[derive(Debug, thiserror::Error)]
#[error("the server gave no answer within {limit:?}")]
pub(crate) struct Timeout {
    pub(crate) limit: Duration,
}

/// A failure to settle after which no COMMIT was sent: nothing was committed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct CommitNotSent(#[source] BoxError);

// === impl Unsent ===

impl CommitNotSent {
    /// Wraps the error unless it is already definite that nothing was committed.
    pub(crate) fn wrap_unless_definite(error: impl Into<BoxError>) -> BoxError {
        let error = error.into();
        if Failure::may_have_committed(&error) { Box::new(Self(error)) } else { error }
    }
}

// === impl Retry ===

impl Retry {
    /// Never retries.
    pub const NEVER: Self = Self { tries: 1, pause: Duration::ZERO, pause_max: Duration::ZERO };

    /// The pause after the `tried`th try failed; `None` gives up.
    pub(crate) fn pause_after(&self, tried: u32) -> Option<Duration> {
        if tried >= self.tries {
            return None;
        }
        let doubled = self.pause.saturating_mul(1 << tried.saturating_sub(1).min(16));
        Some(doubled.min(self.pause_max).mul_f64(rand::random_range(0.5..1.5)))
    }
}

impl Default for Retry {
    /// Eight tries within about a second.
    fn default() -> Self {
        Self { tries: 8, pause: Duration::from_millis(5), pause_max: Duration::from_millis(500) }
    }
}

// === impl Failure ===

impl Failure {
    /// Classifies an error by the first known one among its causes.
    pub(crate) fn of(error: &BoxError) -> Self {
        causes(error).find_map(Self::of_known).unwrap_or(Self::Final)
    }

    /// Classifies an error of the commit.
    pub(crate) fn of_commit(error: &BoxError) -> Self {
        if Self::may_have_committed(error) { Self::Lost } else { Self::of(error) }
    }

    /// Whether the transaction may have committed although an error was returned. Only the server can
    /// deny that, and only if its session lives on; an error of the driver cannot.
    pub(crate) fn may_have_committed(error: &BoxError) -> bool {
        for cause in causes(error) {
            if cause.is::<CommitNotSent>() {
                return false;
            }
            if is_of_server(cause) {
                return Self::of_known(cause) == Some(Self::Lost);
            }
        }
        true
    }

    fn of_known(error: &(dyn Error + 'static)) -> Option<Self> {
        if error.is::<Timeout>() {
            return Some(Self::Lost);
        }
        if let Some(error) = error.downcast_ref::<OpenError>() {
            return Some(Self::of_open(error));
        }
        Self::of_driver(error)
    }

    /// Servers that restart come back, and connections become free.
    fn of_open(error: &OpenError) -> Self {
        match error {
            OpenError::Unreachable { .. }
            | OpenError::TooManyConnections { .. }
            | OpenError::Exhausted { .. } => Self::NotConnected,
            _ => Self::Final,
        }
    }

    fn of_driver(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return Some(Self::of_tokio_postgres(error));
        }
        #[cfg(feature = "sqlx")]
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return Some(super::with_sqlx::failure(error));
        }
        None
    }

    pub(crate) fn of_tokio_postgres(error: &tokio_postgres::Error) -> Self {
        match error.as_db_error() {
            Some(server) => Self::of_server(server),
            None if error.is_closed() || has_io(error) => Self::Lost,
            None => Self::Final,
        }
    }

    fn of_server(error: &DbError) -> Self {
        let ends_session =
            matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic));
        match (error.code().code(), error.routine()) {
            // There is no SQLSTATE for it, but the name of the routine is the same in all languages.
            ("0A000", Some("RevalidateCachedQuery"))
            | ("26000", Some("FetchPreparedStatement")) => Self::Outdated,
            (state, _) => Self::of_state(state, ends_session),
        }
    }

    /// Classifies a SQLSTATE; `ends_session` is whether the error ended the session.
    pub(crate) fn of_state(state: &str, ends_session: bool) -> Self {
        match state {
            // At a commit the error may have come too late.
            _ if ends_session => Self::Lost,
            "40001" | "40P01" => Self::Conflict,
            // The server shuts down, an administrator ended the connection, or the server does not know
            // whether it committed.
            "57P01" | "57P02" | "57P03" | "40003" => Self::Lost,
            _ if state.starts_with("08") => Self::Lost,
            _ => Self::Final,
        }
    }
}

/// An error and its causes.
fn causes(error: &BoxError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error.as_ref();
    std::iter::successors(Some(first), |&error| error.source())
}

/// Whether the server itself returned the error.
fn is_of_server(error: &(dyn Error + 'static)) -> bool {
    #[cfg(feature = "sqlx")]
    if let Some(error) = error.downcast_ref::<sqlx::Error>() {
        return matches!(error, sqlx::Error::Database(_));
    }
    error.downcast_ref::<tokio_postgres::Error>().is_some_and(|error| error.as_db_error().is_some())
}

fn has_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(<dyn Error>::is::<std::io::Error>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_limit_and_end() {
        let ms = Duration::from_millis;
        let retry = Retry { tries: 4, pause: ms(10), pause_max: ms(20) };
        for (tried, about) in [(1, 10), (2, 20), (3, 20)] {
            let pause = retry.pause_after(tried).unwrap();
            assert!(pause >= ms(about) / 2 && pause <= ms(about) * 3 / 2, "{tried}: {pause:?}");
        }
        assert_eq!(retry.pause_after(4), None);
        assert_eq!(Retry::NEVER.pause_after(1), None);
    }

    #[test]
    fn only_conflicts_and_losses_are_tried_again() {
        for (state, failure) in [
            ("40001", Failure::Conflict),
            ("40P01", Failure::Conflict),
            ("40003", Failure::Lost),
            ("57P01", Failure::Lost),
            ("08006", Failure::Lost),
            ("23505", Failure::Final),
            ("25P02", Failure::Final),
        ] {
            assert_eq!(Failure::of_state(state, false), failure, "{state}");
        }
        assert_eq!(Failure::of(&"no funds".into()), Failure::Final);
    }

    fn open_error(make: fn(String, String) -> OpenError) -> BoxError {
        Box::new(make("postgres://bank@h/d".to_owned(), "no".to_owned()))
    }

    #[test]
    fn a_transaction_that_was_never_begun_is_retried() {
        let error = open_error(|server, what| OpenError::Unreachable { server, what });
        assert_eq!(Failure::of(&error), Failure::NotConnected);
        let error = open_error(|server, what| OpenError::TooManyConnections { server, what });
        assert_eq!(Failure::of(&error), Failure::NotConnected);
        let error = open_error(|server, what| OpenError::Refused { server, what });
        assert_eq!(Failure::of(&error), Failure::Final);
    }

    #[test]
    fn an_error_that_is_not_the_servers_leaves_a_doubt() {
        let timed_out: BoxError = Box::new(Timeout { limit: Duration::from_secs(1) });
        assert_eq!(Failure::of(&timed_out), Failure::Lost);
        assert!(Failure::may_have_committed(&timed_out));
        let garbled: BoxError = "unexpected message".into();
        assert_eq!(Failure::of(&garbled), Failure::Final);
        assert_eq!(Failure::of_commit(&garbled), Failure::Lost);
        assert!(!Failure::may_have_committed(&CommitNotSent::wrap_unless_definite(garbled)));
        #[cfg(feature = "sqlx")]
        {
            let garbled: BoxError = Box::new(sqlx::Error::Protocol("unexpected".to_owned()));
            assert_eq!(Failure::of_commit(&garbled), Failure::Lost);
        }
    }

    /// A full disk while the server writes its log ends the server, and the content of the log is
    /// unknown.
    #[test]
    fn an_error_that_ends_the_session_leaves_a_doubt() {
        for state in ["53100", "XX000", "40001"] {
            assert_eq!(Failure::of_state(state, true), Failure::Lost, "{state}");
        }
    }
}
