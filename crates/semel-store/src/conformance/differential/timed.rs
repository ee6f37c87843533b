use std::fmt::Debug;
use std::mem;
use std::time::Duration;

use proptest::test_runner::TestCaseError;
use semel_core::{Claim, Lease, Record, Refusal, State, Timestamp};

use crate::{Released, Renewed, Settled};

/// Something with times in it. They are compared apart from the rest, because two clocks that run
/// by themselves never show quite the same.
pub(super) trait Timed: Debug + PartialEq {
    /// Takes the times out, in their order, and leaves zeros.
    fn take_times(&mut self) -> Vec<Timestamp>;
}

/// Must be equal, with times no further apart than `tolerance`.
pub(super) fn agree<T: Timed>(
    what: &str,
    mut ours: T,
    mut reference: T,
    tolerance: Duration,
) -> Result<(), TestCaseError> {
    let shown =
        format!("{what}: the store answered {ours:?}, the reference answered {reference:?}");
    let times = ours.take_times().into_iter().zip(reference.take_times());
    let near = |(a, b): (Timestamp, Timestamp)| a.until(b).max(b.until(a)) <= tolerance;
    // Equal shapes have equally many times, so nothing is lost by `zip`.
    if ours == reference && times.into_iter().all(near) {
        Ok(())
    } else {
        Err(TestCaseError::fail(shown))
    }
}

fn take(time: &mut Timestamp) -> Timestamp {
    mem::replace(time, Timestamp::ZERO)
}

impl Timed for Claim {
    fn take_times(&mut self) -> Vec<Timestamp> {
        match self {
            Self::Execute(lease) => lease.take_times(),
            Self::Replay { expires, .. } => vec![take(expires)],
            Self::InFlight { until } => vec![take(until)],
            Self::Mismatch | Self::Unknown => Vec::new(),
        }
    }
}

impl Timed for Lease {
    fn take_times(&mut self) -> Vec<Timestamp> {
        let times = vec![self.until(), self.expires()];
        self.renewed(Timestamp::ZERO, Timestamp::ZERO);
        times
    }
}

impl Timed for Refusal {
    fn take_times(&mut self) -> Vec<Timestamp> {
        match self {
            Self::Settled { expires, .. } => vec![take(expires)],
            Self::Superseded | Self::Gone => Vec::new(),
        }
    }
}

impl Timed for Renewed {
    fn take_times(&mut self) -> Vec<Timestamp> {
        match self {
            Self::Until { until, expires } => vec![take(until), take(expires)],
            Self::Refused(refusal) => refusal.take_times(),
        }
    }
}

impl Timed for Settled {
    fn take_times(&mut self) -> Vec<Timestamp> {
        match self {
            Self::Recorded => Vec::new(),
            Self::Refused(refusal) => refusal.take_times(),
        }
    }
}

impl Timed for Released {
    fn take_times(&mut self) -> Vec<Timestamp> {
        match self {
            Self::Done => Vec::new(),
            Self::Refused(refusal) => refusal.take_times(),
        }
    }
}

impl Timed for Option<Record> {
    fn take_times(&mut self) -> Vec<Timestamp> {
        let Some(record) = self else {
            return Vec::new();
        };
        let mut times = vec![take(&mut record.created), take(&mut record.expires)];
        if let State::Leased { until } = &mut record.state {
            times.push(take(until));
        }
        times
    }
}
