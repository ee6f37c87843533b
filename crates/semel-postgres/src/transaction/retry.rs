use std::error::Error;
use std::time::Duration;

use tokio_postgres::error::{DbError, Severity};

use super::BoxError;
use crate::OpenError;

/// Which failed transactions are tried again, how often, and after what pause.
///
/// A transaction that the server gave up as the victim of a deadlock or of a conflict with another
/// (SQLSTATE 40P01, 40001) left nothing behind, and would probably succeed if it were tried again. So
/// would one whose tables were changed under a prepared statement. A connection that broke may have
/// committed: the next claim finds out. Where no connection could be made, nothing was asked.
///
/// With sqlx, a transaction whose tables were changed under a prepared statement is not tried again:
/// the statement is in sqlx's cache, and would fail again on the same connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// How often a transaction is tried in all; one never tries again.
    pub tries: u32,
    /// The first pause, which doubles with every try. Its length is shaken, so that two that were in
    /// each other's way do not meet again.
    pub pause: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

/// What became of a transaction that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was rolled back, and may succeed next time.
    Conflict,
    /// It was rolled back because a statement was prepared for tables that have changed since. The
    /// next try prepares it anew.
    Outdated,
    /// The connection broke, or the server said nothing in time.
    Lost,
    /// There was no connection, so nothing was begun.
    Unreached,
    /// It was rolled back, and would fail again.
    Final,
}

/// The server took too long. Its connection must be cut.
#[derive(Debug, thiserror::Error)]
#[error("the server gave no answer within {limit:?}")]
pub(crate) struct Silent {
    pub(crate) limit: Duration,
}

/// A failure to settle after which no COMMIT was sent: whatever it is, nothing was committed.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unsent(#[source] BoxError);

// === impl Unsent ===

impl Unsent {
    /// Where the server says so itself, its error is left as it is.
    pub(crate) fn unless_told(error: impl Into<BoxError>) -> BoxError {
        let error = error.into();
        if Failure::leaves_doubt(&error) { Box::new(Self(error)) } else { error }
    }
}

// === impl Retry ===

impl Retry {
    /// Never tries again.
    pub const NEVER: Self = Self { tries: 1, pause: Duration::ZERO, pause_max: Duration::ZERO };

    /// How long to wait after the `tried`th try failed; `None` gives up.
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
    /// What an error says, or one of those beneath it.
    pub(crate) fn of(error: &BoxError) -> Self {
        causes(error).find_map(Self::of_known).unwrap_or(Self::Final)
    }

    /// What an error at the commit says.
    pub(crate) fn of_commit(error: &BoxError) -> Self {
        if Self::leaves_doubt(error) { Self::Lost } else { Self::of(error) }
    }

    /// May it have been committed, though an error came instead of an answer? Only the server can say
    /// that it was not, and only if its session lives on; what the driver makes of an answer cannot.
    pub(crate) fn leaves_doubt(error: &BoxError) -> bool {
        for cause in causes(error) {
            if cause.is::<Unsent>() {
                return false;
            }
            if is_of_server(cause) {
                return Self::of_known(cause) == Some(Self::Lost);
            }
        }
        true
    }

    fn of_known(error: &(dyn Error + 'static)) -> Option<Self> {
        if error.is::<Silent>() {
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
            OpenError::Unreachable { .. } | OpenError::TooManyConnections { .. } => Self::Unreached,
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
            // There is no SQLSTATE for it, but the routine that says so has one name in all languages.
            ("0A000", Some("RevalidateCachedQuery"))
            | ("26000", Some("FetchPreparedStatement")) => Self::Outdated,
            (state, _) => Self::of_state(state, ends_session),
        }
    }

    /// What the server's SQLSTATE says, and whether it ended the session with it.
    pub(crate) fn of_state(state: &str, ends_session: bool) -> Self {
        match state {
            // Whatever the reason: at a commit it may have come too late.
            _ if ends_session => Self::Lost,
            "40001" | "40P01" => Self::Conflict,
            // The server goes down, the connection was ended by an administrator, or the server does
            // not know itself whether it committed.
            "57P01" | "57P02" | "57P03" | "40003" => Self::Lost,
            _ if state.starts_with("08") => Self::Lost,
            _ => Self::Final,
        }
    }
}

/// An error and those beneath it.
fn causes(error: &BoxError) -> impl Iterator<Item = &(dyn Error + 'static)> {
    let first: &(dyn Error + 'static) = error.as_ref();
    std::iter::successors(Some(first), |&error| error.source())
}

/// Did the server itself answer with an error?
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
    fn what_was_never_asked_may_be_asked_again() {
        let error = open_error(|server, what| OpenError::Unreachable { server, what });
        assert_eq!(Failure::of(&error), Failure::Unreached);
        let error = open_error(|server, what| OpenError::TooManyConnections { server, what });
        assert_eq!(Failure::of(&error), Failure::Unreached);
        let error = open_error(|server, what| OpenError::Refused { server, what });
        assert_eq!(Failure::of(&error), Failure::Final);
    }

    #[test]
    fn whatever_the_server_did_not_say_leaves_a_doubt() {
        let silent: BoxError = Box::new(Silent { limit: Duration::from_secs(1) });
        assert_eq!(Failure::of(&silent), Failure::Lost);
        assert!(Failure::leaves_doubt(&silent));
        let garbled: BoxError = "unexpected message".into();
        assert_eq!(Failure::of(&garbled), Failure::Final);
        assert_eq!(Failure::of_commit(&garbled), Failure::Lost);
        assert!(!Failure::leaves_doubt(&Unsent::unless_told(garbled)));
        #[cfg(feature = "sqlx")]
        {
            let garbled: BoxError = Box::new(sqlx::Error::Protocol("unexpected".to_owned()));
            assert_eq!(Failure::of_commit(&garbled), Failure::Lost);
        }
    }

    /// A disk that is full while the server writes its log ends the server, and nobody knows what is in
    /// the log.
    #[test]
    fn an_error_that_ends_the_session_leaves_a_doubt() {
        for state in ["53100", "XX000", "40001"] {
            assert_eq!(Failure::of_state(state, true), Failure::Lost, "{state}");
        }
    }
}
