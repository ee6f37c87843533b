//! The time of a run: microseconds since it began, the same for all writers of its history.
#![expect(clippy::disallowed_methods, reason = "real processes live in real time")]

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Shared by all parts of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    began: Instant,
}

// === impl Clock ===

impl Clock {
    /// It begins now.
    pub fn start() -> Self {
        Self { began: Instant::now() }
    }

    /// Microseconds since the run began.
    pub(crate) fn now(self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// True if `limit` is over since the run was `began` old.
    pub(crate) fn is_over(self, began: Duration, limit: Duration) -> bool {
        self.elapsed() > began + limit
    }

    /// So long ago the run began.
    pub fn elapsed(self) -> Duration {
        self.began.elapsed()
    }
}

/// The day, as `2026-10-19`, in UTC.
pub(crate) fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    date(seconds / 86_400)
}

/// The date of a day since 1970 (Howard Hinnant's way).
fn date(day: u64) -> String {
    let shifted = day + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day_of_month:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        assert_eq!(date(0), "1970-01-01");
        assert_eq!(date(11_016), "2000-02-29");
        assert_eq!(date(20_000), "2024-10-04");
    }
}
