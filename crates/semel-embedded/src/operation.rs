//! What callers ask of the committer, and how they get their answers.

use std::time::Duration;

use semel_core::{
    Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement, Timestamp, decide,
    release, renew, settle,
};
use semel_store::{FromTransition as _, Released, Renewed, Settled, StoreError};
use tokio::sync::oneshot;

use crate::recent::Seen;

/// One thing to do.
#[expect(clippy::large_enum_variant, reason = "nearly every operation is the large one")]
pub(crate) enum Operation {
    /// A verb of the store on one record.
    Write {
        id: RecordId,
        /// What the caller read in the engine, if it looked.
        seen: Option<Seen>,
        verb: Verb,
    },
    /// Delete these, which were read as expired when group `as_of` was visible.
    Forget { ids: Vec<RecordId>, as_of: u64, reply: ReplyTo<usize> },
    /// Say that the committer is alive and the engine open.
    Ping { reply: ReplyTo<()> },
}

/// Where an answer goes. The caller may be gone; then nobody hears it.
pub(crate) type ReplyTo<T> = oneshot::Sender<Result<T, StoreError>>;

/// What to do.
pub(crate) enum Verb {
    Claim { attempt: Attempt, policy: Policy, reply: ReplyTo<Claim> },
    Renew { lease: Lease, duration: Duration, reply: ReplyTo<Renewed> },
    Settle { lease: Lease, settlement: Settlement, reply: ReplyTo<Settled> },
    Release { lease: Lease, how: Release, reply: ReplyTo<Released> },
}

/// An answer that waits for its group to become durable.
pub(crate) enum Answer {
    Claim(ReplyTo<Claim>, Claim),
    Renew(ReplyTo<Renewed>, Renewed),
    Settle(ReplyTo<Settled>, Settled),
    Release(ReplyTo<Released>, Released),
    Forget(ReplyTo<usize>, usize),
    Ping(ReplyTo<()>),
}

// === impl Operation ===

impl Operation {
    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Self::Write { verb, .. } => verb.refuse(error),
            Self::Forget { reply, .. } => drop(reply.send(Err(error))),
            Self::Ping { reply } => drop(reply.send(Err(error))),
        }
    }
}

// === impl Verb ===

impl Verb {
    /// The answer, and what must be durable before it is given.
    pub(crate) fn decide(
        self,
        current: Option<&Record>,
        now: Timestamp,
    ) -> (Answer, Option<Record>) {
        match self {
            Self::Claim { attempt, policy, reply } => {
                let decision = decide(current, &attempt, &policy, now);
                (Answer::Claim(reply, decision.claim), decision.write)
            }
            Self::Renew { lease, duration, reply } => {
                let (answer, write) =
                    Renewed::from_transition(renew(current, &lease, duration, now));
                (Answer::Renew(reply, answer), write)
            }
            Self::Settle { lease, settlement, reply } => {
                let (answer, write) =
                    Settled::from_transition(settle(current, &lease, &settlement, now));
                (Answer::Settle(reply, answer), write)
            }
            Self::Release { lease, how, reply } => {
                let (answer, write) = Released::from_transition(release(current, &lease, how, now));
                (Answer::Release(reply, answer), write)
            }
        }
    }

    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Self::Claim { reply, .. } => drop(reply.send(Err(error))),
            Self::Renew { reply, .. } => drop(reply.send(Err(error))),
            Self::Settle { reply, .. } => drop(reply.send(Err(error))),
            Self::Release { reply, .. } => drop(reply.send(Err(error))),
        }
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn give(self) {
        match self {
            Self::Claim(reply, answer) => drop(reply.send(Ok(answer))),
            Self::Renew(reply, answer) => drop(reply.send(Ok(answer))),
            Self::Settle(reply, answer) => drop(reply.send(Ok(answer))),
            Self::Release(reply, answer) => drop(reply.send(Ok(answer))),
            Self::Forget(reply, answer) => drop(reply.send(Ok(answer))),
            Self::Ping(reply) => drop(reply.send(Ok(()))),
        }
    }

    pub(crate) fn refuse(self, error: StoreError) {
        match self {
            Self::Claim(reply, _) => drop(reply.send(Err(error))),
            Self::Renew(reply, _) => drop(reply.send(Err(error))),
            Self::Settle(reply, _) => drop(reply.send(Err(error))),
            Self::Release(reply, _) => drop(reply.send(Err(error))),
            Self::Forget(reply, _) => drop(reply.send(Err(error))),
            Self::Ping(reply) => drop(reply.send(Err(error))),
        }
    }
}
