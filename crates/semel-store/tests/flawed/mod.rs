//! A store like the memory store, with one mistake planted in it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Decision, Fence, Lease, Owner, Policy, Record, RecordId, Release, Reply,
    Settlement, State, Timestamp, Transition, decide, release, renew, settle,
};
use semel_store::conformance::{Fixture, FixtureClock};
use semel_store::{
    Clock, FromTransition, Health, ManualClock, Released, Renewed, Settled, Store, StoreFuture,
    Swept,
};

/// The mistakes, each seen in published code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// The control: no mistake, so that every failure is the mistake's.
    None,
    /// Trap 1: `settle` ignores the fence.
    SettleUnfenced,
    /// Trap 1: `release` ignores the fence.
    ReleaseUnfenced,
    /// Trap 1: `renew` ignores the fence.
    RenewUnfenced,
    /// The fence number alone is compared, not the owner.
    OwnerUnchecked,
    /// Trap 2: read, then write.
    CheckThenSet,
    /// Trap 5: retention is counted from the settlement.
    TtlFromSettle,
    /// Retention is counted from the first claim, not from the latest grant.
    TtlFromCreation,
    /// Trap 9: the fingerprint is compared only once the outcome is known.
    MismatchIgnoredInFlight,
    /// Trap 12: replies are kept as text.
    RepliesAsText,
    /// Trap 13: a repeated claim is taken for a duplicate.
    OwnerUnrecognised,
    /// A late copy of a claim is granted a lease after its owner has released.
    ReleasedOwnerGranted,
    /// Trap 16: expiry is left to the sweeper.
    ExpiryIgnored,
    /// I1: a renewal does not keep the record alive.
    RenewalForgetsExpiry,
    /// I1: a renewal counts from now, even if that makes the lease shorter.
    RenewalShortens,
    /// I2: the last outcome wins.
    LastSettleWins,
    /// Abandoned records are swept as if they had expired.
    SweepsAbandoned,
    /// `fail` is answered but not recorded.
    FailNotRecorded,
    /// A repeated release is refused.
    ReleaseNotRepeatable,
    /// Trap 20: only the first bytes of an id count.
    ShortIds,
    /// Declared durable, but forgets.
    Forgetful,
}

pub(crate) struct FlawedStore {
    flaw: Flaw,
    records: Mutex<HashMap<RecordId, Record>>,
    clock: ManualClock,
}

/// A fixture for one flaw, by its place in [`Flaw`].
pub(crate) struct Flawed<const FLAW: u8> {
    store: FlawedStore,
}

const ALL: [Flaw; 21] = [
    Flaw::None,
    Flaw::SettleUnfenced,
    Flaw::ReleaseUnfenced,
    Flaw::RenewUnfenced,
    Flaw::OwnerUnchecked,
    Flaw::CheckThenSet,
    Flaw::TtlFromSettle,
    Flaw::TtlFromCreation,
    Flaw::MismatchIgnoredInFlight,
    Flaw::RepliesAsText,
    Flaw::OwnerUnrecognised,
    Flaw::ReleasedOwnerGranted,
    Flaw::ExpiryIgnored,
    Flaw::RenewalForgetsExpiry,
    Flaw::RenewalShortens,
    Flaw::LastSettleWins,
    Flaw::SweepsAbandoned,
    Flaw::FailNotRecorded,
    Flaw::ReleaseNotRepeatable,
    Flaw::ShortIds,
    Flaw::Forgetful,
];

// === impl Flawed ===

impl<const FLAW: u8> Fixture for Flawed<FLAW> {
    type Store = FlawedStore;

    const DURABLE: bool = true;
    const CLOCK: FixtureClock = FixtureClock::Manual;
    const UNIT: Duration = Duration::from_secs(1);

    async fn make() -> Self {
        Self {
            store: FlawedStore {
                flaw: ALL[usize::from(FLAW)],
                records: Mutex::default(),
                clock: ManualClock::at(Timestamp::from_millis(1_700_000_000_000)),
            },
        }
    }

    fn store(&self) -> &FlawedStore {
        &self.store
    }

    async fn advance(&self, duration: Duration) {
        self.store.clock.advance(duration);
    }

    async fn reopen(self) -> Self {
        if self.store.flaw == Flaw::Forgetful {
            self.store.records().clear();
        }
        self
    }
}

// === impl FlawedStore ===

impl FlawedStore {
    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == flaw
    }

    fn records(&self) -> MutexGuard<'_, HashMap<RecordId, Record>> {
        self.records.lock().expect("no panic with the lock held")
    }

    /// Where a record is kept.
    fn place(&self, id: RecordId) -> RecordId {
        if !self.has(Flaw::ShortIds) {
            return id;
        }
        let mut bytes = *id.as_bytes();
        bytes[4..].fill(0);
        RecordId::from_bytes(bytes)
    }

    fn find(&self, records: &HashMap<RecordId, Record>, id: RecordId) -> Option<Record> {
        let mut record = records.get(&self.place(id)).cloned()?;
        if self.has(Flaw::ExpiryIgnored) {
            record.expires = Timestamp::from_millis(u64::MAX);
        }
        Some(record)
    }

    fn get(&self, id: RecordId) -> Option<Record> {
        self.find(&self.records(), id)
    }

    async fn claim_flawed(&self, attempt: &Attempt, policy: &Policy) -> Claim {
        if self.has(Flaw::CheckThenSet) {
            let record = self.get(attempt.id());
            // Long enough for concurrent calls to have read, too.
            tokio::time::sleep(Duration::from_millis(10)).await;
            let decision = decide(record.as_ref(), attempt, policy, self.clock.now());
            return self.apply(&mut self.records(), attempt.id(), decision);
        }
        let now = self.clock.now();
        let mut records = self.records();
        let record = self.find(&records, attempt.id());
        if let Some(answer) = self.answer_wrongly(record.as_ref(), attempt, now) {
            return answer;
        }
        let record = record.map(|record| self.misread(record));
        let mut decision = decide(record.as_ref(), attempt, policy, now);
        if self.has(Flaw::TtlFromCreation) {
            shorten(&mut decision, record.as_ref().filter(|record| !record.is_expired(now)));
        }
        self.apply(&mut records, attempt.id(), decision)
    }

    /// The record as a claim that ignores some of its fields reads it.
    fn misread(&self, record: Record) -> Record {
        match record.state {
            // No attempt has this owner.
            State::Released if self.has(Flaw::ReleasedOwnerGranted) => {
                Record { owner: Owner::from_u128(u128::MAX), ..record }
            }
            _ => record,
        }
    }

    /// The flaws of a claim that answers without deciding.
    fn answer_wrongly(
        &self,
        record: Option<&Record>,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Option<Claim> {
        let record = record.filter(|record| !record.is_expired(now))?;
        let State::Leased { until } = record.state else {
            return None;
        };
        let waits = record.is_leased(now)
            && match self.flaw {
                Flaw::MismatchIgnoredInFlight => record.fingerprint != attempt.fingerprint(),
                Flaw::OwnerUnrecognised => record.fingerprint == attempt.fingerprint(),
                _ => false,
            };
        waits.then_some(Claim::InFlight { until })
    }

    fn apply(
        &self,
        records: &mut HashMap<RecordId, Record>,
        id: RecordId,
        decision: Decision,
    ) -> Claim {
        if let Some(record) = decision.write {
            let fails = matches!(record.state, State::Settled(_));
            if !(fails && self.has(Flaw::FailNotRecorded)) {
                records.insert(self.place(id), record);
            }
        }
        decision.claim
    }

    /// Makes one write, with `unfenced` as if the lease were the record's current one.
    fn write<A: FromTransition>(
        &self,
        lease: &Lease,
        unfenced: bool,
        transition: impl FnOnce(Option<&Record>, &Lease, Timestamp) -> Transition,
    ) -> A {
        let mut records = self.records();
        let record = self.find(&records, lease.id());
        let forged = record.as_ref().and_then(|record| self.forge(record, lease, unfenced));
        let lease = forged.as_ref().unwrap_or(lease);
        let transition = transition(record.as_ref(), lease, self.clock.now());
        let (answer, write) = A::from_transition(transition);
        if let Some(record) = write {
            records.insert(self.place(lease.id()), record);
        }
        answer
    }

    /// The lease that a check with a hole in it takes this one for.
    fn forge(&self, record: &Record, lease: &Lease, unfenced: bool) -> Option<Lease> {
        let same_number = self.has(Flaw::OwnerUnchecked) && record.fence == lease.fence();
        let (fence, owner): (Fence, _) = (record.fence, record.owner);
        (unfenced || same_number).then(|| {
            let (until, expires) = (lease.until(), lease.expires());
            Lease::new(lease.id(), lease.fingerprint(), fence, owner, until, expires)
        })
    }

    fn settle_flawed(&self, lease: &Lease, settlement: Settlement) -> Settled {
        let settlement =
            if self.has(Flaw::RepliesAsText) { as_text(settlement) } else { settlement };
        self.write(lease, self.has(Flaw::SettleUnfenced), |record, lease, now| {
            match settle(record, lease, &settlement, now) {
                Transition::Write(mut record) if self.has(Flaw::TtlFromSettle) => {
                    let ttl = record.created.until(record.expires);
                    record.expires = now.plus(ttl);
                    Transition::Write(record)
                }
                Transition::Refused(_) if self.has(Flaw::LastSettleWins) => {
                    overwrite(record, lease, settlement)
                }
                transition => transition,
            }
        })
    }

    fn renew_flawed(&self, lease: &Lease, duration: Duration) -> Renewed {
        self.write(lease, self.has(Flaw::RenewUnfenced), |record, lease, now| {
            match renew(record, lease, duration, now) {
                Transition::Write(mut new) if self.has(Flaw::RenewalForgetsExpiry) => {
                    new.expires = record.map_or(new.expires, |record| record.expires);
                    Transition::Write(new)
                }
                Transition::Write(mut new) if self.has(Flaw::RenewalShortens) => {
                    new.state = State::Leased { until: now.plus(duration) };
                    Transition::Write(new)
                }
                transition => transition,
            }
        })
    }

    fn release_flawed(&self, lease: &Lease, how: Release) -> Released {
        self.write(lease, self.has(Flaw::ReleaseUnfenced), |record, lease, now| {
            match release(record, lease, how, now) {
                Transition::Already if self.has(Flaw::ReleaseNotRepeatable) => {
                    Transition::Refused(semel_core::Refusal::Superseded)
                }
                transition => transition,
            }
        })
    }

    fn sweep_flawed(&self, limit: usize) -> Swept {
        let now = self.clock.now();
        let goes = |record: &Record| {
            record.is_expired(now) || self.has(Flaw::SweepsAbandoned) && record.is_abandoned(now)
        };
        let mut records = self.records();
        let expired: Vec<RecordId> =
            records.iter().filter(|(_, record)| goes(record)).map(|(id, _)| *id).collect();
        for id in expired.iter().take(limit) {
            records.remove(id);
        }
        Swept { deleted: expired.len().min(limit), more: expired.len() > limit }
    }
}

impl Store for FlawedStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move { Ok(self.claim_flawed(attempt, policy).await) })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(async move { Ok(self.renew_flawed(lease, duration)) })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move { Ok(self.settle_flawed(lease, settlement)) })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move { Ok(self.release_flawed(lease, how)) })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(self.get(id).filter(|record| !record.is_expired(now)))
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async move { Ok(self.sweep_flawed(limit)) })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move { Ok(Health { now: self.clock.now(), kind: "flawed", note: None }) })
    }
}

/// Takes back what a grant adds to the life of a record, but for the end of its lease.
fn shorten(decision: &mut Decision, before: Option<&Record>) {
    if let (Claim::Execute(lease), Some(after), Some(before)) =
        (&mut decision.claim, &mut decision.write, before)
    {
        after.expires = before.expires.max(lease.until());
        lease.renewed(lease.until(), after.expires);
    }
}

fn overwrite(record: Option<&Record>, lease: &Lease, settlement: Settlement) -> Transition {
    match record {
        Some(record) if record.is_current(lease) => {
            Transition::Write(Record { state: State::Settled(settlement), ..record.clone() })
        }
        _ => Transition::Refused(semel_core::Refusal::Superseded),
    }
}

fn as_text(settlement: Settlement) -> Settlement {
    let text = |reply: Reply| Reply::new(String::from_utf8_lossy(reply.bytes()).into_owned());
    match settlement {
        Settlement::Completed(reply) => Settlement::Completed(text(reply)),
        Settlement::Failed(reply) => Settlement::Failed(text(reply)),
        Settlement::Abandoned => Settlement::Abandoned,
    }
}
