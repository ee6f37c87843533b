//! The store's time, within one process and across restarts.
//!
//! A process carries the machine's time on with its monotonic clock, so only the time at the start
//! can be wrong. It is compared with a *mark*: the latest time at which the store is known to have
//! been open, kept in the directory.
//!
//! - **Behind the mark**: the store's time goes on from the mark. It never goes back.
//! - **Far ahead of it**: the store was closed for long, or the clock is wrong. No record may expire
//!   because of that, so records from before this *leap* are moved forward by its length: they
//!   count as if that time had not passed.
//! - **Ahead before, right now**: the leap is undone. Records that were made meanwhile are from the
//!   future, and are moved back. It is undone only if that brings the mark nearer to the clock: a
//!   small step back is no reason to doubt a long pause.
//!
//! The mark may be missing, or older than the last use of the store. See [`Past`].

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Record, State, Timestamp};
use semel_store::Clock;

use crate::tuning;

/// The store's clock, and the adjustment of the times in records.
#[derive(Debug)]
pub(crate) struct Times {
    clock: Arc<dyn Clock>,
    /// What the store's time is ahead of `clock`, in milliseconds.
    ahead: u64,
    opened: Timestamp,
    /// Oldest first.
    leaps: Vec<Leap>,
    finding: Finding,
}

/// What is kept in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    /// The latest time at which the store was open.
    time: Timestamp,
    /// Oldest first.
    leaps: Vec<Leap>,
}

/// A start far ahead of the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Leap {
    /// When the store was opened after it.
    at: Timestamp,
    /// Its length in milliseconds.
    by: u64,
    /// For so much of it the store was in use, though nothing moved the mark. Leases are not moved by
    /// this part, or those that lapsed in it would be live again.
    stale: u64,
}

/// The state that earlier processes left in the directory.
#[derive(Clone, Debug)]
pub(crate) enum Past {
    /// There were none.
    New,
    /// There were, and the mark can be read.
    Marked {
        mark: Mark,
        /// For how long after the mark was written the log was still written to, by the times of the
        /// two files. An older version ignores the mark, and it may be impossible to replace.
        stale: Duration,
    },
    /// There were, and there is no mark: they were of an older version, or the mark is lost.
    Unmarked {
        /// The time of the latest write to the log, by the time of its file. A copy may have the time of
        /// the copy.
        last_write: Option<Timestamp>,
    },
}

/// By how many milliseconds the times of a record are to be moved.
#[derive(Clone, Copy)]
struct Shift {
    record: i64,
    lease: i64,
}

/// What the time at the start looks like beside the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Plausible,
    /// The same, but beside the time of a file.
    Unmarked,
    /// There is nothing to compare with.
    Unknown,
    Ahead(Duration),
    Behind(Duration),
    /// An earlier start was ahead.
    WasAhead(Duration),
}

// === impl Times ===

impl Times {
    /// The store's time from now on, given what the directory says.
    pub(crate) fn start(clock: Arc<dyn Clock>, past: Past) -> Self {
        let wall = clock.now();
        let (mark, stale, plausible) = past.mark(wall);
        let WithoutWrong { mark, undone, place } = mark.without_wrong_leaps(wall);
        let Mark { time, mut leaps } = mark;
        let (ahead_by, behind_by) = (time.until(wall), wall.until(time));
        let ahead = ahead_by > tuning::CLOCK_LEAP;
        if ahead {
            let by = millis(ahead_by);
            let at = place.map_or(wall, |place| place.min(wall));
            leaps.push(Leap { at, by, stale: millis(stale).min(by) });
            let surplus = leaps.len().saturating_sub(tuning::CLOCK_LEAPS_MAX);
            leaps.drain(..surplus);
        }
        let finding = match plausible {
            Finding::Unknown => Finding::Unknown,
            _ if ahead => Finding::Ahead(ahead_by),
            _ if !undone.is_zero() => Finding::WasAhead(undone),
            _ if behind_by > tuning::CLOCK_SLACK => Finding::Behind(behind_by),
            plausible => plausible,
        };
        let opened = wall.max(time);
        Self { clock, ahead: millis(behind_by), opened, leaps, finding }
    }

    pub(crate) fn finding(&self) -> Finding {
        self.finding
    }

    /// What to keep in the directory now.
    pub(crate) fn mark(&self) -> Mark {
        Mark { time: self.now(), leaps: self.leaps.clone() }
    }

    /// May expired records be deleted? Not soon after a start with an implausible time: if it is
    /// found to be wrong and set right, nothing is lost.
    pub(crate) fn may_sweep(&self, now: Timestamp) -> bool {
        self.finding == Finding::Plausible
            || self.opened.plus(tuning::SWEEP_DELAY_AFTER_CLOCK_WARNING) <= now
    }

    /// Moves the times of a record to where they belong. Doing so twice changes nothing.
    pub(crate) fn adjust(&self, record: &mut Record, now: Timestamp) {
        let Shift { record: by, lease } = self.shift(record.created, now);
        if by == 0 {
            return;
        }
        // Of a record that is older than a leap is long, also the later time may be before the leap;
        // were that written, it would be moved again.
        let after_leaps = self.leaps.last().map_or(Timestamp::ZERO, |leap| leap.at);
        let earliest = if by > 0 { after_leaps } else { Timestamp::ZERO };
        record.created = moved(record.created, by).max(earliest);
        record.expires = moved(record.expires, by);
        if let State::Leased { until } = &mut record.state {
            *until = moved(*until, lease);
        }
    }

    /// Whether a record is expired according to its own time.
    pub(crate) fn is_expired(
        &self,
        created: Timestamp,
        expires: Timestamp,
        now: Timestamp,
    ) -> bool {
        moved(expires, self.shift(created, now).record) <= now
    }

    fn shift(&self, created: Timestamp, now: Timestamp) -> Shift {
        let leaps = self.leaps.iter().skip_while(|leap| created >= leap.at);
        let forward = leaps.fold(Shift { record: 0, lease: 0 }, |sum, leap| {
            // The store was open when the record was made: what came before is no part of a pause.
            let pause = moved(created, sum.record).until(leap.at);
            let by = leap.by.min(millis(pause));
            sum.plus(by, by.min(leap.by - leap.stale))
        });
        if forward.record > 0 {
            return forward;
        }
        if created > now.plus(tuning::CLOCK_SLACK) {
            let back = created.as_millis().saturating_sub(self.opened.as_millis());
            let back = i64::try_from(back).map_or(i64::MIN, |back| -back);
            return Shift { record: back, lease: back };
        }
        Shift { record: 0, lease: 0 }
    }
}

impl Clock for Times {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.clock.now().as_millis().saturating_add(self.ahead))
    }
}

fn moved(time: Timestamp, by: i64) -> Timestamp {
    Timestamp::from_millis(time.as_millis().saturating_add_signed(by))
}

fn distance(one: Timestamp, other: Timestamp) -> Duration {
    one.until(other).max(other.until(one))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

// === impl Shift ===

impl Shift {
    fn plus(self, record: u64, lease: u64) -> Self {
        Self {
            record: self.record.saturating_add_unsigned(record),
            lease: self.lease.saturating_add_unsigned(lease),
        }
    }
}

// === impl Past ===

impl Past {
    /// What a start at `wall` is compared with, how stale that is, and what is to be said if they agree.
    fn mark(self, wall: Timestamp) -> (Mark, Duration, Finding) {
        let unmarked = |time| Mark { time, leaps: Vec::new() };
        match self {
            Self::New => (unmarked(wall), Duration::ZERO, Finding::Plausible),
            Self::Marked { mark, stale } => {
                // Marks are not written all the time.
                let is_old = stale > tuning::CLOCK_SLACK;
                (mark, if is_old { stale } else { Duration::ZERO }, Finding::Plausible)
            }
            Self::Unmarked { last_write: Some(time) } if time <= wall => {
                (unmarked(time), Duration::ZERO, Finding::Unmarked)
            }
            // As if the store had been closed since the beginning of time: all that is in it counts as
            // if it had been made now.
            Self::Unmarked { .. } => (unmarked(Timestamp::ZERO), Duration::ZERO, Finding::Unknown),
        }
    }
}

// === impl Mark ===

/// A mark without the leaps that must have been wrong.
struct WithoutWrong {
    mark: Mark,
    /// Their length.
    undone: Duration,
    /// Where the first of them was: every record from before it is older than that.
    place: Option<Timestamp>,
}

impl Mark {
    /// The mark without leaps that must have been wrong: without them it is nearer to `wall`.
    fn without_wrong_leaps(self, wall: Timestamp) -> WithoutWrong {
        let mut before = self.clone();
        let (mut undone, mut place) = (0_u64, None);
        while wall.plus(tuning::CLOCK_SLACK) < before.time {
            let Some(leap) = before.leaps.pop() else {
                // It is before them all, and one wrong time is no reason to follow another.
                return WithoutWrong { mark: self, undone: Duration::ZERO, place: None };
            };
            let time = moved(before.time, i64::try_from(leap.by).map_or(i64::MIN, |by| -by));
            if distance(time, wall) >= distance(before.time, wall) {
                before.leaps.push(leap);
                break;
            }
            undone = undone.saturating_add(leap.by);
            place = Some(leap.at);
            before.time = time;
        }
        WithoutWrong { mark: before, undone: Duration::from_millis(undone), place }
    }

    /// One line: the time, each leap as `TIME+LENGTH` or `TIME+LENGTH-STALE`, and a checksum.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{HEAD}{}", self.time.as_millis());
        for leap in &self.leaps {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}+{}", leap.at.as_millis(), leap.by);
            if leap.stale > 0 {
                let _ = write!(text, "-{}", leap.stale);
            }
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "{TAIL}{checksum:08x}");
        text
    }

    /// The mark in `text`; `None` if it is not as it was written.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (body, checksum) = text.strip_suffix('\n')?.rsplit_once(TAIL)?;
        if checksum != format!("{:08x}", crc32fast::hash(body.as_bytes())) {
            return None;
        }
        let mut words = body.strip_prefix(HEAD)?.split(' ');
        let time = Timestamp::from_millis(words.next()?.parse().ok()?);
        Some(Self { time, leaps: words.map(Leap::parse).collect::<Option<_>>()? })
    }
}

// === impl Leap ===

impl Leap {
    fn parse(word: &str) -> Option<Self> {
        let (at, rest) = word.split_once('+')?;
        let (by, stale) = rest.split_once('-').unwrap_or((rest, "0"));
        let (at, by, stale) = (at.parse().ok()?, by.parse().ok()?, stale.parse().ok()?);
        (stale <= by).then_some(Self { at: Timestamp::from_millis(at), by, stale })
    }
}

const HEAD: &str = "semel clock ";
const TAIL: &str = " crc32 ";

#[cfg(test)]
mod tests;
