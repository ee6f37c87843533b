//! The writes of a lease's holder: renew, settle, release. Each requires the record's current
//! fence (I3), and each may be repeated after a time-out without harm.

use std::time::Duration;

use crate::{Lease, Record, Settlement, State, Timestamp};

/// What a fenced write does to the record.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the write must be made durable before it is acknowledged (I6)"]
pub enum Transition {
    /// Write this record.
    Write(Record),
    /// The record has it already: an earlier try of the same write took effect.
    Already,
    /// The lease no longer counts; nothing is written.
    Refused(Refusal),
}

/// How a lease is handed back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The work did not happen: it may be tried again.
    Retry,
    /// It is unknown whether the work happened: it must not be tried again before an operator has checked.
    Hold,
}

/// Why a fenced write is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The record is settled, not by this write: this is the answer to give instead (I4).
    Settled {
        /// The recorded outcome.
        settlement: Settlement,
        /// Until when it can be replayed.
        expires: Timestamp,
    },
    /// Another lease was granted, or this one was handed back.
    Superseded,
    /// The record is gone: expired, swept or deleted.
    Gone,
}

/// The holder is alive: its lease lasts for `duration` from now.
///
/// A lease that ran out may be renewed as long as no other lease replaced it.
pub fn renew(
    record: Option<&Record>,
    lease: &Lease,
    duration: Duration,
    now: Timestamp,
) -> Transition {
    let record = match current(record, lease, now) {
        Ok(record) => record,
        Err(refusal) => return Transition::Refused(refusal),
    };
    match &record.state {
        State::Leased { until: granted } => {
            // Never shorter than its holder believes it to be, even if the clock was set back
            // or the policy changed: another attempt could be granted the rest (I1).
            let until = now.plus(duration).max(*granted);
            Transition::Write(Record {
                state: State::Leased { until },
                expires: record.expires.max(until),
                ..record.clone()
            })
        }
        State::Held | State::Released => Transition::Refused(Refusal::Superseded),
        State::Settled(settlement) => Transition::Refused(settled(record, settlement)),
    }
}

/// Records the outcome.
///
/// A holder whose lease ran out, or that reported the outcome unknown before, may still settle as long as
/// no other lease replaced it: this is how `hold` resolves itself.
pub fn settle(
    record: Option<&Record>,
    lease: &Lease,
    settlement: &Settlement,
    now: Timestamp,
) -> Transition {
    let record = match current(record, lease, now) {
        Ok(record) => record,
        Err(refusal) => return Transition::Refused(refusal),
    };
    match &record.state {
        State::Leased { .. } | State::Held => Transition::Write(Record {
            state: State::Settled(settlement.clone()),
            ..record.clone()
        }),
        State::Released => Transition::Refused(Refusal::Superseded),
        State::Settled(recorded) if recorded == settlement => Transition::Already,
        State::Settled(recorded) => Transition::Refused(settled(record, recorded)),
    }
}

/// The holder gives the lease back.
pub fn release(record: Option<&Record>, lease: &Lease, how: Release, now: Timestamp) -> Transition {
    let record = match current(record, lease, now) {
        Ok(record) => record,
        Err(refusal) => return Transition::Refused(refusal),
    };
    let released = match how {
        Release::Retry => State::Released,
        Release::Hold => State::Held,
    };
    match &record.state {
        State::Leased { .. } => Transition::Write(Record { state: released, ..record.clone() }),
        state if *state == released => Transition::Already,
        State::Held | State::Released => Transition::Refused(Refusal::Superseded),
        State::Settled(settlement) => Transition::Refused(settled(record, settlement)),
    }
}

/// The record, if it still lives and `lease` is its latest.
fn current<'r>(
    record: Option<&'r Record>,
    lease: &Lease,
    now: Timestamp,
) -> Result<&'r Record, Refusal> {
    let record = record
        .filter(|record| !record.is_expired(now))
        // A later life of the same key may belong to another request, whose answer this holder must not
        // give (I8).
        .filter(|record| record.fingerprint == lease.fingerprint())
        .ok_or(Refusal::Gone)?;
    match &record.state {
        _ if record.is_current(lease) => Ok(record),
        State::Settled(settlement) => Err(settled(record, settlement)),
        _ => Err(Refusal::Superseded),
    }
}

fn settled(record: &Record, settlement: &Settlement) -> Refusal {
    Refusal::Settled { settlement: settlement.clone(), expires: record.expires }
}

#[cfg(test)]
mod tests;
