use crate::{Attempt, Fence, Lease, OnAbandoned, Policy, Record, Settlement, State, Timestamp};

/// What an attempt gets, and what the store must write for it in the same atomic step.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "the write must be made durable before the claim is answered (I5)"]
pub struct Decision {
    /// The answer to the attempt.
    pub claim: Claim,
    /// The record to write, if anything changes. Without a write the claim is a mere reading.
    pub write: Option<Record>,
}

/// The answer to a claim: exactly one of five.
#[derive(Debug, PartialEq, Eq)]
pub enum Claim {
    /// The attempt has the right to execute.
    Execute(Lease),
    /// The outcome is known: give it again.
    Replay {
        /// The recorded outcome.
        settlement: Settlement,
        /// Until when it can be replayed.
        expires: Timestamp,
    },
    /// Another attempt is executing, or the attempt's own execution was released and is over.
    InFlight {
        /// When the other's lease runs out unless renewed. The present, if there is none: another
        /// attempt may claim at once.
        until: Timestamp,
    },
    /// The key was used for another request. Nothing was executed and nothing is replayed (I8).
    Mismatch,
    /// The work may or may not have happened, and the policy is to hold.
    Unknown,
}

/// Decides one attempt: the single statement of the state machine.
///
/// `record` is what the store keeps under the attempt's id, `now` is the store's clock. Reading the
/// record, deciding, and writing [`Decision::write`] must be one atomic step of the store.
pub fn decide(
    record: Option<&Record>,
    attempt: &Attempt,
    policy: &Policy,
    now: Timestamp,
) -> Decision {
    let Some(record) = record.filter(|record| !record.is_expired(now)) else {
        return first_lease(attempt, policy, now);
    };
    // Before anything else, in every state: another request must never learn of this one (I8).
    if record.fingerprint != attempt.fingerprint() {
        return Decision::read(Claim::Mismatch);
    }
    match &record.state {
        State::Settled(settlement) => Decision::read(Claim::Replay {
            settlement: settlement.clone(),
            expires: record.expires,
        }),
        // The owner has handed its lease back, so its attempt is over: this is a copy of its claim that
        // the network delayed. A lease granted to it would have no holder.
        State::Released if record.owner == attempt.owner() => {
            Decision::read(Claim::InFlight { until: now })
        }
        State::Released => next_lease(record, attempt, policy, now),
        State::Held => Decision::read(Claim::Unknown),
        // The attempt's own claim, repeated after a time-out: it has not executed yet (I3).
        // Its lease never gets shorter, even if the clock was set back.
        State::Leased { until } if record.owner == attempt.owner() => {
            let until = now.plus(policy.lease()).max(*until);
            lease(record, record.fence, attempt, until, now.plus(policy.ttl()))
        }
        State::Leased { until } if now < *until => {
            Decision::read(Claim::InFlight { until: *until })
        }
        State::Leased { .. } => abandoned(record, attempt, policy, now),
    }
}

fn abandoned(record: &Record, attempt: &Attempt, policy: &Policy, now: Timestamp) -> Decision {
    match policy.on_abandoned() {
        OnAbandoned::Reexecute => next_lease(record, attempt, policy, now),
        OnAbandoned::Hold => Decision::read(Claim::Unknown),
        OnAbandoned::Fail => Decision {
            claim: Claim::Replay { settlement: Settlement::Abandoned, expires: record.expires },
            write: Some(Record { state: State::Settled(Settlement::Abandoned), ..record.clone() }),
        },
    }
}

fn first_lease(attempt: &Attempt, policy: &Policy, now: Timestamp) -> Decision {
    let fresh = Record {
        fingerprint: attempt.fingerprint(),
        created: now,
        expires: now,
        fence: Fence::FIRST,
        owner: attempt.owner(),
        state: State::Released,
    };
    lease(&fresh, Fence::FIRST, attempt, now.plus(policy.lease()), now.plus(policy.ttl()))
}

fn next_lease(record: &Record, attempt: &Attempt, policy: &Policy, now: Timestamp) -> Decision {
    let until = now.plus(policy.lease());
    lease(record, record.fence.next(), attempt, until, now.plus(policy.ttl()))
}

/// Grants a lease until a moment, of a record that is kept until another.
fn lease(
    record: &Record,
    fence: Fence,
    attempt: &Attempt,
    until: Timestamp,
    kept_until: Timestamp,
) -> Decision {
    let record = Record {
        fingerprint: record.fingerprint,
        created: record.created,
        // Retention counts from the latest grant, or what it leads to could be forgotten soon after it
        // was settled. And a record outlives its lease, or a second one could be granted beside it (I1).
        expires: record.expires.max(kept_until).max(until),
        fence,
        owner: attempt.owner(),
        state: State::Leased { until },
    };
    Decision { claim: Claim::Execute(record.grant(attempt.id(), until)), write: Some(record) }
}

// === impl Decision ===

impl Decision {
    const fn read(claim: Claim) -> Self {
        Self { claim, write: None }
    }
}

#[cfg(test)]
mod tests;
