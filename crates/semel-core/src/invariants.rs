//! The ten promises of Semel, each with its id, its meaning and a plain predicate.
//!
//! Tests, the model, fault runs and docs name an invariant by its id and check it with the function
//! here, so that all of them mean the same. The predicates take what an observer can see: records,
//! leases, answers and counts.

use std::fmt;

use crate::{Claim, Lease, Record, RecordId, Settlement, State, Timestamp};

/// A promise that holds at all times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// I1: at most one unexpired lease per record, at any time, over all nodes.
    OneLease,
    /// I2: a settled record never changes until it expires.
    SettledIsFinal,
    /// I3: renew, settle and release take effect only with the record's current fence.
    Fenced,
    /// I4: every answer to one key that carries an outcome is the settled one.
    SameAnswer,
    /// I5: nothing executes before its claim is durable in the store.
    ClaimFirst,
    /// I6: no client sees an outcome before it is durable, but for a store lost after execution.
    SettleFirst,
    /// I7: two scopes never see each other's records.
    Scoped,
    /// I8: a mismatch neither executes nor replays.
    MismatchIsInert,
    /// I9: once claimed, an execution runs to its settlement even if its client hangs up.
    Detached,
    /// I10: every wait, queue, body, cache and retry has a limit.
    Bounded,
}

// === impl Invariant ===

impl Invariant {
    /// All ten, in order.
    pub const ALL: [Self; 10] = [
        Self::OneLease,
        Self::SettledIsFinal,
        Self::Fenced,
        Self::SameAnswer,
        Self::ClaimFirst,
        Self::SettleFirst,
        Self::Scoped,
        Self::MismatchIsInert,
        Self::Detached,
        Self::Bounded,
    ];

    /// The id that docs, tests and fault runs use.
    pub const fn id(self) -> &'static str {
        match self {
            Self::OneLease => "I1 one-lease",
            Self::SettledIsFinal => "I2 settled-is-final",
            Self::Fenced => "I3 fenced",
            Self::SameAnswer => "I4 same-answer",
            Self::ClaimFirst => "I5 claim-first",
            Self::SettleFirst => "I6 settle-first",
            Self::Scoped => "I7 scoped",
            Self::MismatchIsInert => "I8 mismatch-is-inert",
            Self::Detached => "I9 detached",
            Self::Bounded => "I10 bounded",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id())
    }
}

/// I1 over the leases that nodes believe to hold on one record.
pub fn one_lease<'a>(held: impl IntoIterator<Item = &'a Lease>, now: Timestamp) -> bool {
    held.into_iter().filter(|lease| now < lease.until()).count() <= 1
}

/// I2 over one write: a record that was settled and had not expired is as it was.
pub fn settled_is_final(before: &Record, after: Option<&Record>, now: Timestamp) -> bool {
    match before.state {
        State::Settled(_) if !before.is_expired(now) => after == Some(before),
        _ => true,
    }
}

/// I3 over one write made with a lease: if anything changed, the lease was the record's current one.
pub fn fenced(before: Option<&Record>, after: Option<&Record>, lease: &Lease) -> bool {
    before == after || before.is_some_and(|record| record.is_current(lease))
}

/// I3 over one write within a record's life: fences never fall.
pub fn fence_never_falls(before: &Record, after: &Record) -> bool {
    before.created != after.created || before.fence <= after.fence
}

/// I4 over the outcomes that clients of one key were given within one life of its record.
pub fn same_answer<'a>(answers: impl IntoIterator<Item = &'a Settlement>) -> bool {
    let mut answers = answers.into_iter();
    let first = answers.next();
    answers.all(|answer| Some(answer) == first)
}

/// I5 over one execution: the store had durably granted its lease when it began. To be judged by
/// the record of that moment: later the record may have been swept or begun another life.
pub fn claim_first(durable: Option<&Record>, lease: &Lease) -> bool {
    durable.is_some_and(|record| record.fence >= lease.fence())
}

/// I6 over one answer: the outcome is durable in the store when it is given, or the answer said
/// that it was not stored. To be judged by the record of that moment.
pub fn settle_first(durable: Option<&Record>, answer: &Settlement, said_not_stored: bool) -> bool {
    said_not_stored
        || durable.is_some_and(|record| matches!(&record.state, State::Settled(s) if s == answer))
}

/// I7 over two attempts: equal ids only for equal namespace, scope and key.
pub fn scoped<T: PartialEq>(left: (&T, RecordId), right: (&T, RecordId)) -> bool {
    (left.0 == right.0) == (left.1 == right.1)
}

/// I8 over one decision about an attempt whose fingerprint differs from the live record's.
pub fn mismatch_is_inert(claim: &Claim, write: Option<&Record>) -> bool {
    matches!(claim, Claim::Mismatch) && write.is_none()
}

/// I9 over the executions of one node: as many came to their end as began, once it has no work left.
pub fn detached(begun: u64, ended: u64) -> bool {
    begun == ended
}

/// I10 over anything that is counted against a limit.
pub fn bounded(used: u64, limit: u64) -> bool {
    used <= limit
}

#[cfg(test)]
mod tests;
