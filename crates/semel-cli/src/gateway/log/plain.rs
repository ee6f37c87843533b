//! Lines of plain text. They look as those of tracing do, for a third of its effort: a busy gateway
//! writes one for each request.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::time::{Duration, SystemTime};

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// Formats an event as `TIME LEVEL TARGET: MESSAGE NAME=VALUE …`.
pub(super) struct Plain;

struct Fields<'a, 'w> {
    line: &'a mut Writer<'w>,
    result: fmt::Result,
}

/// Escapes line breaks of foreign messages and errors, so that an event stays one line.
struct OneLine<'a, 'w>(&'a mut Writer<'w>);

thread_local! {
    /// The last second that was written, and how.
    static SECOND: RefCell<(u64, String)> = const { RefCell::new((u64::MAX, String::new())) };
}

// === impl Plain ===

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    #[expect(
        clippy::disallowed_methods,
        reason = "a time for people to read, which decides nothing"
    )]
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut line: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        write_time(&mut line, since)?;
        line.write_str(level(*event.metadata().level()))?;
        line.write_str(event.metadata().target())?;
        line.write_char(':')?;
        let mut fields = Fields { line: &mut line, result: Ok(()) };
        event.record(&mut fields);
        fields.result?;
        line.write_char('\n')
    }
}

const fn level(level: Level) -> &'static str {
    match level {
        Level::ERROR => " ERROR ",
        Level::WARN => "  WARN ",
        Level::INFO => "  INFO ",
        Level::DEBUG => " DEBUG ",
        Level::TRACE => " TRACE ",
    }
}

// === impl Fields ===

impl Fields<'_, '_> {
    fn write(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'_>) -> fmt::Result) {
        let written = self.begin(field).and_then(|()| value(self.line));
        self.result = self.result.and(written);
    }

    fn begin(&mut self, field: &Field) -> fmt::Result {
        self.line.write_char(' ')?;
        if field.name() == "message" {
            return Ok(());
        }
        self.line.write_str(field.name())?;
        self.line.write_char('=')
    }
}

impl Visit for Fields<'_, '_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.write(field, |line| {
            if is_plain(value) {
                line.write_char('"')?;
                line.write_str(value)?;
                line.write_char('"')
            } else {
                write!(line, "{value:?}")
            }
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.write(field, |line| write!(OneLine(line), "{value:?}"));
    }
}

/// True if nothing in it needs escaping.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
}

// === impl OneLine ===

impl fmt::Write for OneLine<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !text.contains(char::is_control) {
            return self.0.write_str(text);
        }
        text.chars().try_for_each(|character| match character {
            control if control.is_control() => write!(self.0, "{}", control.escape_default()),
            other => self.0.write_char(other),
        })
    }
}

/// Writes a time as in `2026-11-16T02:26:18.123456Z`, making the part up to the second only once.
fn write_time(line: &mut impl fmt::Write, since_1970: Duration) -> fmt::Result {
    SECOND.with_borrow_mut(|(second, text)| {
        if *second != since_1970.as_secs() {
            *second = since_1970.as_secs();
            *text = to_the_second(*second);
        }
        line.write_str(text)
    })?;
    write!(line, ".{:06}Z", since_1970.subsec_micros())
}

fn to_the_second(second: u64) -> String {
    let (days, second) = (second / 86_400, second % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// The date so many days after 1 January 1970. Years are counted from March, so that the day that
/// may be missing is the last.
const fn date(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_400_YEARS: u64 = 146_097;
    // Days since 1 March of the year 0.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_IN_400_YEARS, days % DAYS_IN_400_YEARS);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Five months from March on have 153 days, and so have the next five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = era * 400 + year;
    if month < 10 { (year, month + 3, day) } else { (year + 1, month - 9, day) }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn written(event: impl FnOnce()) -> (String, String) {
        let ours = Shared::default();
        let theirs = Shared::default();
        let (to_ours, to_theirs) = (ours.clone(), theirs.clone());
        let layer = tracing_subscriber::fmt::layer().with_ansi(false);
        let subscriber = tracing_subscriber::registry()
            .with(layer.with_writer(move || to_ours.clone()).event_format(Plain))
            .with(
                tracing_subscriber::fmt::layer()
                    .with_ansi(false)
                    .with_writer(move || to_theirs.clone()),
            );
        tracing::subscriber::with_default(subscriber, event);
        let text = |written: Shared| String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        (text(ours), text(theirs))
    }

    #[test]
    fn lines_look_as_those_of_tracing() {
        let (ours, theirs) = written(|| {
            let (route, status) = ("POST /v1/charges", 200_u16);
            tracing::info!(route, status, ok = true, "attempt");
            tracing::warn!(error = %"it's \"gone\"", odd = "a\"b\n", "went {}", "away");
            tracing::debug!(answer = ?Some(4.5));
        });
        let after_time = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split_once(' ').unwrap().1.to_owned()).collect()
        };
        assert_eq!(after_time(&ours), after_time(&theirs));
        assert_eq!(ours.lines().count(), 3, "{ours}");
    }

    #[test]
    fn a_message_stays_on_its_line() {
        let (ours, _) = written(|| tracing::info!(error = %"a\nb", "one\ntwo\u{1b}[31m"));
        assert_eq!(ours.lines().count(), 1, "{ours}");
        assert!(!ours.contains('\u{1b}'), "{ours}");
    }

    #[test]
    fn times_are_those_of_the_calendar() {
        let text = |second, micros: u32| {
            let mut line = String::new();
            write_time(&mut line, Duration::new(second, micros * 1_000)).unwrap();
            line
        };
        assert_eq!(text(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(text(951_782_400, 7), "2000-02-29T00:00:00.000007Z");
        assert_eq!(text(1_709_251_199, 999_999), "2024-02-29T23:59:59.999999Z");
        assert_eq!(text(1_709_251_200, 0), "2024-03-01T00:00:00.000000Z");
        assert_eq!(text(4_102_444_799, 0), "2099-12-31T23:59:59.000000Z");
        assert_eq!(text(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }

    /// Every day of four hundred years against the calendar kept by counting.
    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = (1970, 1, 1);
        for days in 0..146_097 {
            assert_eq!(date(days), expected);
            let (year, month, day) = expected;
            let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 if is_leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                (month, day) if day == length => (year, month + 1, 1),
                (month, day) => (year, month, day + 1),
            };
        }
    }
}
