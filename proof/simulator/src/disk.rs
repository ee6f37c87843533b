//! Where the simulated store keeps its records: the memory store of `semel-store`, and the mistakes that
//! can be planted in it.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fence, Fingerprint, Lease, OnAbandoned, Owner, Policy, Record, RecordId,
    Release, Reply, Settlement, State,
};
use semel_store::{
    Clock as _, MemoryStore, Released, Renewed, Settled, Store as _, StoreError, Swept,
};

use crate::Mistake;
use crate::world::World;

/// The content of a claim. Unlike an attempt it can be sent twice.
#[derive(Clone, Debug)]
pub(crate) struct ClaimSent {
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) owner: Owner,
    pub(crate) policy: Policy,
}

/// The content of a lease in a message. Unlike a lease it can be sent twice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseSent {
    pub(crate) id: RecordId,
    pub(crate) fingerprint: Fingerprint,
    pub(crate) fence: Fence,
    pub(crate) owner: Owner,
}

/// The records.
pub(crate) struct Disk {
    world: World,
    memory: MemoryStore,
    /// Records that a mistake made the store forget, and what they are kept under since.
    forgotten: Mutex<Vec<(RecordId, RecordId)>>,
}

// === impl ClaimSent ===

impl ClaimSent {
    pub(crate) fn new(attempt: &Attempt, policy: &Policy) -> Self {
        Self {
            id: attempt.id(),
            fingerprint: attempt.fingerprint(),
            owner: attempt.owner(),
            policy: policy.clone(),
        }
    }
}

// === impl LeaseSent ===

impl LeaseSent {
    pub(crate) const fn new(lease: &Lease) -> Self {
        Self {
            id: lease.id(),
            fingerprint: lease.fingerprint(),
            fence: lease.fence(),
            owner: lease.owner(),
        }
    }
}

// === impl Disk ===

impl Disk {
    pub(crate) fn new(world: World) -> Self {
        let memory = MemoryStore::with_clock(world.clock().clone());
        Self { world, memory, forgotten: Mutex::default() }
    }

    pub(crate) fn claim(&self, sent: &ClaimSent) -> Result<Claim, StoreError> {
        let id = self.place(sent.id);
        let (mut fingerprint, mut owner) = (sent.fingerprint, sent.owner);
        let mut policy = sent.policy.clone();
        let record = self.mistaken_record(id);
        if let Some(record) = &record {
            if self.has(Mistake::MismatchReplayed) && matches!(record.state, State::Settled(_)) {
                fingerprint = record.fingerprint;
            }
            let is_released = matches!(record.state, State::Released);
            let is_forgotten = self.has(Mistake::OwnerForgotten)
                || self.has(Mistake::GrantedAfterRelease) && is_released;
            if is_forgotten && record.owner == owner {
                owner = Owner::from_u128(owner.as_u128() ^ 1);
            }
        }
        if self.has(Mistake::HoldIgnored) {
            policy = with(&policy, OnAbandoned::Reexecute, policy.ttl());
        }
        if self.has(Mistake::ExpiresEarly) {
            let ttl = (policy.ttl() / 2).max(policy.lease() + Duration::from_millis(1));
            policy = with(&policy, policy.on_abandoned(), ttl);
        }
        let claim = at_once(self.memory.claim(&Attempt::new(id, fingerprint, owner), &policy))?;
        Ok(self.addressed(sent, claim))
    }

    /// The answer to a claim, under the id that the claim had.
    fn addressed(&self, sent: &ClaimSent, claim: Claim) -> Claim {
        match claim {
            Claim::Execute(lease) => {
                let stands_still = self.has(Mistake::FenceStandsStill);
                let fence = if stands_still { Fence::FIRST } else { lease.fence() };
                let (until, expires) = (lease.until(), lease.expires());
                Claim::Execute(Lease::new(
                    sent.id,
                    lease.fingerprint(),
                    fence,
                    lease.owner(),
                    until,
                    expires,
                ))
            }
            Claim::Replay { settlement: Settlement::Completed(reply), expires }
                if self.has(Mistake::ReplyAltered) =>
            {
                let reply = Reply::new([reply.bytes(), b"!".as_slice()].concat());
                Claim::Replay { settlement: Settlement::Completed(reply), expires }
            }
            other => other,
        }
    }

    pub(crate) fn renew(&self, sent: LeaseSent, by: Duration) -> Result<Renewed, StoreError> {
        if let Some(renewed) = self.renew_nothing(sent, by) {
            return Ok(renewed);
        }
        at_once(self.memory.renew(&self.lease(sent), by))
    }

    /// What a renewal would have answered, if by mistake it is not made.
    fn renew_nothing(&self, sent: LeaseSent, by: Duration) -> Option<Renewed> {
        if !self.has(Mistake::RenewalsLost) {
            return None;
        }
        let Record { expires, owner, fence, .. } = self.mistaken_record(self.place(sent.id))?;
        let until = self.world.clock().now().plus(by);
        let would_be_granted = owner == sent.owner && fence == sent.fence && until < expires;
        would_be_granted.then_some(Renewed::Until { until, expires })
    }

    pub(crate) fn settle(
        &self,
        mut sent: LeaseSent,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError> {
        if self.has(Mistake::SettlementForgotten) {
            return Ok(Settled::Recorded);
        }
        if self.has(Mistake::FenceIgnored)
            && let Some(record) = self.mistaken_record(self.place(sent.id))
        {
            (sent.fence, sent.owner) = (record.fence, record.owner);
        }
        at_once(self.memory.settle(&self.lease(sent), settlement.clone()))
    }

    pub(crate) fn release(&self, sent: LeaseSent, how: Release) -> Result<Released, StoreError> {
        at_once(self.memory.release(&self.lease(sent), how))
    }

    pub(crate) fn inspect(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        at_once(self.memory.inspect(self.place(id)))
    }

    /// Deletes all that has expired. All of it, because the map is in no order that comes again.
    pub(crate) fn sweep(&self) -> Result<Swept, StoreError> {
        at_once(self.memory.sweep(usize::MAX))
    }

    /// The store starts again.
    pub(crate) fn restart(&self) {
        if !self.has(Mistake::SettledLostAtRestart) {
            return;
        }
        for key in &self.world.plan().keys {
            if matches!(self.inspect(key.id), Ok(Some(Record { state: State::Settled(_), .. }))) {
                let mut place = *self.place(key.id).as_bytes();
                place[31] = place[31].wrapping_add(1);
                let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
                forgotten.push((key.id, RecordId::from_bytes(place)));
            }
        }
    }

    /// Where a record is kept.
    fn place(&self, id: RecordId) -> RecordId {
        let forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
        forgotten.iter().rev().find(|(from, _)| *from == id).map_or(id, |(_, to)| *to)
    }

    fn lease(&self, sent: LeaseSent) -> Lease {
        // No verb reads the times of a lease.
        let now = self.world.clock().now();
        Lease::new(self.place(sent.id), sent.fingerprint, sent.fence, sent.owner, now, now)
    }

    fn has(&self, mistake: Mistake) -> bool {
        self.world.has(mistake)
    }

    /// Reads the record, for those mistakes that need it.
    fn mistaken_record(&self, place: RecordId) -> Option<Record> {
        let reading_mistakes = [
            Mistake::MismatchReplayed,
            Mistake::OwnerForgotten,
            Mistake::GrantedAfterRelease,
            Mistake::FenceIgnored,
            Mistake::RenewalsLost,
        ];
        let reads = reading_mistakes.into_iter().any(|mistake| self.has(mistake));
        reads.then(|| at_once(self.memory.inspect(place)).ok().flatten()).flatten()
    }
}

/// The memory store never waits.
fn at_once<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    match pin!(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => Err(StoreError::unavailable("the memory store waits")),
    }
}

fn with(policy: &Policy, on_abandoned: OnAbandoned, ttl: Duration) -> Policy {
    Policy::builder()
        .lease(policy.lease())
        .ttl(ttl)
        .in_flight(policy.in_flight())
        .on_abandoned(on_abandoned)
        .on_unknown(policy.on_unknown())
        .on_store_down(policy.on_store_down())
        .build()
        .unwrap_or_else(|_| policy.clone())
}
