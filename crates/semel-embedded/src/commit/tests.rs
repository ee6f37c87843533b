use std::cell::Cell;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Reply, Settlement, Timestamp,
};
use semel_store::{ManualClock, Settled, Store as _, StoreError};

use super::inline::write_some;
use super::state::{OpenBatch, Phase};
use super::write::fail;
use super::{CommitQueue, Pending, Priority};
use crate::database::CommitError;
use crate::{Durability, EmbeddedStore, Options, tuning};

struct Fixture {
    // Dropped before its directory.
    store: EmbeddedStore,
    clock: ManualClock,
    _directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    fixture_of(Durability::Power)
}

fn fixture_of(durability: Durability) -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_000));
    let options = Options::new(directory.path())
        .durability(durability)
        .sweep_every(None)
        .clock(Arc::new(clock.clone()));
    Fixture { store: options.open().unwrap(), clock, _directory: directory }
}

fn attempt(number: u32) -> Attempt {
    let mut id = [0; 32];
    id[..4].copy_from_slice(&number.to_be_bytes());
    let owner = Owner::from_u128(number.into());
    Attempt::new(RecordId::from_bytes(id), Fingerprint::from_bytes([1; 32]), owner)
}

async fn claim(store: &EmbeddedStore, number: u32) -> Result<Claim, StoreError> {
    store.claim(&attempt(number), &Policy::default()).await
}

/// Claims so many records from as many tasks, all of which must succeed.
async fn claim_at_once(store: &EmbeddedStore, records: u32) {
    let claims: Vec<_> = (0..records)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { claim(&store, number).await.is_ok() })
        })
        .collect();
    for claim in claims {
        assert!(claim.await.unwrap());
    }
}

/// A batch of one deletion that was taken to be written, and its answer.
fn taken(queue: &CommitQueue) -> (Pending<usize>, OpenBatch) {
    // As if another was being written, so that the committer leaves this one open.
    queue.state().is_writing = true;
    let pending = queue.delete(&[attempt(1).id()], 0).unwrap();
    let mut state = queue.state();
    state.is_writing = false;
    (pending, state.take().unwrap())
}

/// After a batch was refused nothing may be left that makes later ones wait for it: what callers
/// read from the database is current again.
#[tokio::test]
async fn a_refused_batch_does_not_delay_the_next() {
    let Fixture { store, .. } = &fixture();
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))));
    // As if a batch with this number had been refused, and the next one as well.
    store.queue().state().number += 2;
    assert!(fail(store.queue(), &CommitError::Behind, store.queue().storage().now()).is_none());
    assert!(matches!(claim(store, 2).await, Ok(Claim::Execute(_))));
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))), "it recognises itself");
}

/// A failed database is reopened by the next operation, and what was written is still there.
#[tokio::test]
async fn a_failed_database_is_reopened() {
    let Fixture { store, .. } = &fixture();
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))));
    let error = CommitError::Stopped(fjall::Error::Poisoned);
    // The number of the batch that failed is never that of a committed one.
    store.queue().state().number += 1;
    assert!(fail(store.queue(), &error, store.queue().storage().now()).is_none());
    assert!(matches!(claim(store, 2).await, Ok(Claim::Execute(_))));
    let other = Attempt::new(attempt(1).id(), attempt(1).fingerprint(), Owner::from_u128(99));
    let answer = store.claim(&other, &Policy::default()).await;
    assert!(matches!(answer, Ok(Claim::InFlight { .. })), "{answer:?}");
    assert!(store.health().await.is_ok());
}

/// A quiet store sweeps too: what it remembers of that must not grow with what it sweeps (I10).
#[tokio::test]
async fn sweeping_alone_does_not_fill_the_memory() {
    let Fixture { store, clock, .. } = &fixture();
    let records = u32::try_from(tuning::RECENT_MAX * 2).unwrap();
    claim_at_once(store, records).await;
    clock.advance(Policy::default().ttl() + Duration::from_secs(1));
    let mut deleted = 0;
    loop {
        let swept = store.sweep(usize::MAX).await.unwrap();
        deleted += swept.deleted;
        if !swept.more {
            break;
        }
    }
    assert_eq!(deleted, records as usize);
    assert!(store.queue().state().recent.len() <= tuning::RECENT_MAX + tuning::SWEEP_SCAN);
}

/// A caller may find that fjall fell behind with its own write. The next batch would make it wait, and
/// with it all tasks of its thread: that is left to the committer.
#[tokio::test]
async fn a_caller_leaves_the_rest_to_the_committer_once_there_is_no_room() {
    let Fixture { store, .. } = &fixture();
    let queue = store.queue();
    let (first, batch) = taken(queue);
    let (written, meanwhile) = (Cell::new(0), Cell::new(None));
    let commit = |_writes| {
        written.set(written.get() + 1);
        meanwhile.set(Some(queue.delete(&[attempt(2).id()], 0).unwrap()));
        Ok(())
    };
    write_some(queue, batch, commit, || false);
    assert_eq!(written.get(), 1, "batches that the caller wrote");
    let limit = Duration::from_secs(10);
    for pending in [first, meanwhile.take().unwrap()] {
        let answer = tokio::time::timeout(limit, pending.answer()).await;
        assert!(matches!(answer, Ok(Ok(1))), "{answer:?}");
    }
}

/// The callers of one busy moment share the work: none writes for the others for an unbounded time.
#[tokio::test]
async fn a_caller_writes_a_few_batches_and_no_more() {
    let Fixture { store, .. } = &fixture();
    let queue = store.queue();
    let (_first, batch) = taken(queue);
    let written = Cell::new(0);
    let commit = |_writes| {
        written.set(written.get() + 1);
        drop(queue.delete(&[attempt(written.get() + 1).id()], 0).unwrap());
        Ok(())
    };
    write_some(queue, batch, commit, || true);
    assert_eq!(written.get() as usize, tuning::INLINE_BATCHES_MAX);
}

/// One write of the log serves all callers of a thread that are ready at the same time.
#[tokio::test]
async fn callers_of_one_thread_share_a_write() {
    let mut fewest = u64::MAX;
    // Several times: where the machine is busy the thread may have to stop for a while, and the
    // committer goes on without it.
    for _ in 0..20 {
        let Fixture { store, .. } = &fixture_of(Durability::Process);
        claim_at_once(store, 100).await;
        fewest = fewest.min(store.queue().visible());
    }
    // A thread polls its driver after some sixty tasks, and runs the tasks that wait.
    assert!(fewest <= 10, "{fewest} batches for 100 claims");
}

/// The batch of a caller that was dropped is written by the committer: others may wait for it.
#[tokio::test]
async fn the_batch_of_a_dropped_caller_is_left_to_the_committer() {
    let Fixture { store, .. } = &fixture_of(Durability::Process);
    // Several times: a committer that looks again just now would do it without a wake-up.
    for number in 0..20 {
        let mut dropped = Box::pin(claim(store, number));
        let mut context = Context::from_waker(Waker::noop());
        assert!(dropped.as_mut().poll(&mut context).is_pending());
        let other = store.queue().delete(&[attempt(number + 100).id()], 0).unwrap();
        drop(dropped);
        let answer = tokio::time::timeout(Duration::from_secs(10), other.answer()).await;
        assert!(matches!(answer, Ok(Ok(1))), "{answer:?}");
        assert!(store.inspect(attempt(number).id()).await.unwrap().is_some());
    }
}

/// No operation waits for a committer that is gone.
#[tokio::test]
async fn operations_fail_at_once_when_the_committer_is_dead() {
    let Fixture { store, .. } = &fixture();
    store.queue().mark_dead();
    let error = claim(store, 1).await.unwrap_err();
    assert!(error.to_string().contains("restart the process"), "{error}");
    assert!(store.health().await.is_err());
}

/// Fails the database of `store` as a full disk would.
fn break_database(store: &EmbeddedStore) {
    let queue = store.queue();
    queue.state().number += 1;
    let error = CommitError::Stopped(fjall::Error::Poisoned);
    assert!(fail(queue, &error, queue.storage().now()).is_none());
}

fn retry(number: u32, owner: u128) -> Attempt {
    Attempt::new(attempt(number).id(), attempt(number).fingerprint(), Owner::from_u128(owner))
}

fn charged() -> Settlement {
    Settlement::Completed(Reply::new("charged"))
}

/// A process must not take over from itself: its holders could not renew while writing failed.
#[tokio::test]
async fn a_lease_that_ran_out_in_an_outage_is_not_taken_over() {
    let Fixture { store, clock, .. } = &fixture();
    let Ok(Claim::Execute(lease)) = claim(store, 1).await else { panic!("no lease") };
    let policy = Policy::default();
    break_database(store);
    clock.advance(policy.lease() * 20);
    let during = store.claim(&retry(1, 8), &policy).await;
    assert!(matches!(during, Ok(Claim::InFlight { .. })), "{during:?}");
    // Anything that needs a write reopens the database.
    assert!(matches!(claim(store, 2).await, Ok(Claim::Execute(_))));
    let after = store.claim(&retry(1, 9), &policy).await;
    let record = store.inspect(lease.id()).await.unwrap().unwrap();
    let Ok(Claim::InFlight { until }) = after else { panic!("{after:?}") };
    assert_eq!(record.state, semel_core::State::Leased { until }, "inspect agrees with a claim");
    assert_eq!(store.settle(&lease, charged()).await.unwrap(), Settled::Recorded);
    let replayed = store.claim(&retry(1, 10), &policy).await;
    assert!(matches!(replayed, Ok(Claim::Replay { .. })), "{replayed:?}");
}

/// A holder that does not come back loses its lease soon after the outage.
#[tokio::test]
async fn an_outage_extends_leases_for_a_bounded_time() {
    let Fixture { store, clock, .. } = &fixture();
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))));
    break_database(store);
    clock.advance(Policy::default().lease() * 2);
    assert!(store.health().await.is_ok());
    clock.advance(tuning::OUTAGE_GRACE);
    let after = store.claim(&retry(1, 9), &Policy::default()).await;
    let Ok(Claim::Execute(lease)) = after else { panic!("{after:?}") };
    assert_eq!(lease.fence().get(), 2);
}

/// The record of a holder is as safe from the sweep as its lease is from claims.
#[tokio::test]
async fn a_sweep_leaves_alone_what_an_outage_extends() {
    let Fixture { store, clock, .. } = &fixture();
    let Ok(Claim::Execute(lease)) = claim(store, 1).await else { panic!("no lease") };
    break_database(store);
    clock.advance(Policy::default().ttl() * 2);
    assert!(store.health().await.is_ok());
    assert_eq!(store.sweep(usize::MAX).await.unwrap().deleted, 0);
    assert_eq!(store.settle(&lease, charged()).await.unwrap(), Settled::Recorded);
}

/// A claim that waited for the reopening, even if it was the first and caused it, comes after the
/// holders that waited too: it gets the outcome.
#[tokio::test]
async fn holders_are_decided_before_claims_when_the_store_writes_again() {
    let Fixture { store, clock, .. } = &fixture();
    let Ok(Claim::Execute(lease)) = claim(store, 1).await else { panic!("no lease") };
    break_database(store);
    clock.advance(Policy::default().lease() * 2);
    // So that the claim has to wait for the reopening, and does not read first.
    let (attempt, policy) = (retry(1, 9), Policy::default());
    let decide = |record: Option<&semel_core::Record>, now| {
        let decision = semel_core::decide(record, &attempt, &policy, now);
        (decision.claim, decision.write)
    };
    let mut claim = Box::pin(store.queue().submit(Priority::Claim, attempt.id(), None, decide));
    let mut settle = store.settle(&lease, charged());
    let mut context = Context::from_waker(Waker::noop());
    {
        // The committer cannot replace the database while it is being read.
        let _reader = store.queue().storage().database();
        assert!(claim.as_mut().poll(&mut context).is_pending());
        assert!(settle.as_mut().poll(&mut context).is_pending());
    }
    while store.queue().state().phase != Phase::Open {
        tokio::task::yield_now().await;
    }
    // The claim runs first, and still comes second.
    let (claim, settled) = tokio::join!(biased; claim, settle);
    assert_eq!(settled.unwrap(), Settled::Recorded);
    assert!(matches!(claim, Ok(Claim::Replay { .. })), "{claim:?}");
}
