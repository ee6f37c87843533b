use std::error::Error;
use std::time::Duration;

use super::BoxError;

/// Which failed transactions are tried again, how often, and after what pause.
///
/// A transaction that the server gave up as the victim of a deadlock or of a conflict with another
/// (SQLSTATE 40P01, 40001) left nothing behind, and would probably succeed if it were tried again. A
/// connection that broke may have committed: the next claim finds out.
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
    /// The connection broke.
    Lost,
    /// It was rolled back, and would fail again.
    Final,
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
        let mut cause: Option<&(dyn Error + 'static)> = Some(error.as_ref());
        while let Some(error) = cause {
            if let Some(failure) = Self::of_driver(error) {
                return failure;
            }
            cause = error.source();
        }
        Self::Final
    }

    fn of_driver(error: &(dyn Error + 'static)) -> Option<Self> {
        if let Some(error) = error.downcast_ref::<tokio_postgres::Error>() {
            return Some(match error.code() {
                Some(state) => Self::of_state(state.code()),
                None if error.is_closed() || has_io(error) => Self::Lost,
                None => Self::Final,
            });
        }
        #[cfg(feature = "sqlx")]
        if let Some(error) = error.downcast_ref::<sqlx::Error>() {
            return Some(super::with_sqlx::failure(error));
        }
        None
    }

    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "40001" | "40P01" => Self::Conflict,
            // The server goes down, or the connection was ended by an administrator.
            "57P01" | "57P02" | "57P03" => Self::Lost,
            _ if state.starts_with("08") => Self::Lost,
            _ => Self::Final,
        }
    }
}

fn has_io(error: &tokio_postgres::Error) -> bool {
    error.source().is_some_and(|cause| cause.is::<std::io::Error>())
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
        assert_eq!(Failure::of_state("40001"), Failure::Conflict);
        assert_eq!(Failure::of_state("40P01"), Failure::Conflict);
        assert_eq!(Failure::of_state("57P01"), Failure::Lost);
        assert_eq!(Failure::of_state("23505"), Failure::Final);
        assert_eq!(Failure::of(&"no funds".into()), Failure::Final);
    }
}
