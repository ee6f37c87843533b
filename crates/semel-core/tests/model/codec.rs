//! Between the protocol's own types and the model's small numbers.

use semel_core::{
    Attempt, Fence, Fingerprint, Lease, Owner, Record, RecordId, Reply, Settlement, State,
    Timestamp,
};

use crate::bounds::{System, TICK_MS};
use crate::state::{Node, Outcome, Row, RowState};

/// One byte per attempt: static, so that making a reply costs no allocation.
static REPLIES: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

pub(crate) fn time(tick: u8) -> Timestamp {
    Timestamp::from_millis(u64::from(tick) * TICK_MS)
}

pub(crate) fn tick(time: Timestamp) -> u8 {
    u8::try_from(time.as_millis() / TICK_MS).expect("the run is short")
}

fn fence(number: u8) -> Fence {
    Fence::new(u64::from(number)).expect("a lease has a fence")
}

fn owner(attempt: u8) -> Owner {
    Owner::from_u128(u128::from(attempt))
}

fn fingerprint(other: bool) -> Fingerprint {
    Fingerprint::from_bytes([u8::from(other); 32])
}

/// Some attempts fail for good, which must make no difference.
pub(crate) fn settlement(outcome: Outcome) -> Option<Settlement> {
    match outcome {
        Outcome::None => None,
        Outcome::Abandoned => Some(Settlement::Abandoned),
        Outcome::Of(attempt) => {
            let reply = Reply::new(&REPLIES[usize::from(attempt)..=usize::from(attempt)]);
            Some(if attempt % 2 == 0 {
                Settlement::Completed(reply)
            } else {
                Settlement::Failed(reply)
            })
        }
    }
}

pub(crate) fn outcome(settlement: &Settlement) -> Outcome {
    match settlement.reply() {
        Some(reply) => Outcome::Of(reply.bytes()[0]),
        None => Outcome::Abandoned,
    }
}

pub(crate) fn record(row: Row) -> Record {
    Record {
        fingerprint: fingerprint(row.other),
        created: time(row.created),
        expires: time(row.expires),
        fence: fence(row.fence),
        owner: owner(row.attempt),
        state: match row.state {
            RowState::Leased { until } => State::Leased { until: time(until) },
            RowState::Held => State::Held,
            RowState::Released => State::Released,
            RowState::Settled(outcome) => {
                State::Settled(settlement(outcome).expect("settled with an outcome"))
            }
        },
    }
}

pub(crate) fn row(record: &Record) -> Row {
    Row {
        other: record.fingerprint == fingerprint(true),
        created: tick(record.created),
        expires: tick(record.expires),
        fence: u8::try_from(record.fence.get()).expect("few leases"),
        attempt: u8::try_from(record.owner.as_u128()).expect("few attempts"),
        state: match &record.state {
            State::Leased { until } => RowState::Leased { until: tick(*until) },
            State::Held => RowState::Held,
            State::Released => RowState::Released,
            State::Settled(settlement) => RowState::Settled(outcome(settlement)),
        },
    }
}

impl System {
    fn fingerprint(&self, node: &Node) -> Fingerprint {
        fingerprint(self.bounds.mismatching == Some(node.attempt))
    }

    pub(crate) fn attempt(&self, node: &Node) -> Attempt {
        Attempt::new(id(node), self.fingerprint(node), owner(node.attempt))
    }

    /// The lease that a node shows; the store must ignore its times.
    pub(crate) fn lease(&self, node: &Node) -> Lease {
        let until = time(node.until);
        Lease::new(
            id(node),
            self.fingerprint(node),
            fence(node.fence),
            owner(node.attempt),
            until,
            until,
        )
    }
}

fn id(node: &Node) -> RecordId {
    RecordId::from_bytes([node.record; 32])
}
