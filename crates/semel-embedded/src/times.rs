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
//!   future, and are moved back.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Record, State, Timestamp};
use semel_store::Clock;

use crate::tuning;

/// Tells the store's time, and what the times in a record mean by it.
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
}

/// What the time at the start looks like beside the mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    Plausible,
    Ahead(Duration),
    Behind(Duration),
    /// An earlier start was ahead.
    WasAhead(Duration),
}

// === impl Times ===

impl Times {
    /// The store's time from now on, given the mark that was found.
    pub(crate) fn start(clock: Arc<dyn Clock>, mark: Option<Mark>) -> Self {
        let wall = clock.now();
        let mark = mark.unwrap_or(Mark { time: wall, leaps: Vec::new() });
        let (Mark { time, mut leaps }, undone) = mark.without_wrong_leaps(wall);
        let (ahead_by, behind_by) = (time.until(wall), wall.until(time));
        let finding = if ahead_by > tuning::CLOCK_LEAP {
            leaps.push(Leap { at: wall, by: millis(ahead_by) });
            let surplus = leaps.len().saturating_sub(tuning::CLOCK_LEAPS_MAX);
            leaps.drain(..surplus);
            Finding::Ahead(ahead_by)
        } else if !undone.is_zero() {
            Finding::WasAhead(undone)
        } else if behind_by > tuning::CLOCK_SLACK {
            Finding::Behind(behind_by)
        } else {
            Finding::Plausible
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
        self.finding == Finding::Plausible || self.opened.plus(tuning::CLOCK_PATIENCE) <= now
    }

    /// Moves the times of a record to where they belong. Doing so twice changes nothing.
    pub(crate) fn adjust(&self, record: &mut Record, now: Timestamp) {
        let by = self.shift(record.created, now);
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
            *until = moved(*until, by);
        }
    }

    /// Is a record expired that says so of itself?
    pub(crate) fn is_expired(
        &self,
        created: Timestamp,
        expires: Timestamp,
        now: Timestamp,
    ) -> bool {
        moved(expires, self.shift(created, now)) <= now
    }

    /// By how many milliseconds the times of a record are to be moved.
    fn shift(&self, created: Timestamp, now: Timestamp) -> i64 {
        let leapt = self.leaps.iter().rev().take_while(|leap| created < leap.at);
        let forward = leapt.fold(0_u64, |sum, leap| sum.saturating_add(leap.by));
        if forward > 0 {
            return i64::try_from(forward).unwrap_or(i64::MAX);
        }
        if created > now.plus(tuning::CLOCK_SLACK) {
            let back = created.as_millis().saturating_sub(self.opened.as_millis());
            return i64::try_from(back).map_or(i64::MIN, |back| -back);
        }
        0
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

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

// === impl Mark ===

impl Mark {
    /// The mark without leaps that must have been wrong, as it is before their end now; and their
    /// length.
    fn without_wrong_leaps(self, wall: Timestamp) -> (Self, Duration) {
        let mut before = self.clone();
        let mut undone = 0_u64;
        while wall.plus(tuning::CLOCK_SLACK) < before.time {
            let Some(leap) = before.leaps.pop() else {
                // It is before them all, and one wrong time is no reason to follow another.
                return (self, Duration::ZERO);
            };
            undone = undone.saturating_add(leap.by);
            before.time = moved(before.time, i64::try_from(leap.by).map_or(i64::MIN, |by| -by));
        }
        (before, Duration::from_millis(undone))
    }

    /// One line: the time, each leap as `TIME+LENGTH`, and a checksum.
    pub(crate) fn to_text(&self) -> String {
        let mut text = format!("{HEAD}{}", self.time.as_millis());
        for leap in &self.leaps {
            // Writing to a string cannot fail.
            let _ = write!(text, " {}+{}", leap.at.as_millis(), leap.by);
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
        let leap = |word: &str| {
            let (at, by) = word.split_once('+')?;
            Some(Leap { at: Timestamp::from_millis(at.parse().ok()?), by: by.parse().ok()? })
        };
        Some(Self { time, leaps: words.map(leap).collect::<Option<_>>()? })
    }
}

const HEAD: &str = "semel clock ";
const TAIL: &str = " crc32 ";

#[cfg(test)]
mod tests;
