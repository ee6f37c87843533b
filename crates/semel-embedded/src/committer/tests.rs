use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Timestamp};
use semel_store::{ManualClock, Store as _, StoreError};

use super::*;
use crate::{EmbeddedStore, Options, tuning};

struct Fixture {
    // Dropped before its directory.
    store: EmbeddedStore,
    clock: ManualClock,
    _directory: tempfile::TempDir,
}

fn fixture() -> Fixture {
    let directory = tempfile::tempdir().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_000));
    let options = Options::new(directory.path()).sweep_every(None).clock(Arc::new(clock.clone()));
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

/// After a group was refused nothing may be left that makes later ones wait for it: what callers
/// see in the engine is the truth again.
#[tokio::test]
async fn a_refused_group_does_not_stand_in_the_way_of_the_next() {
    let Fixture { store, .. } = &fixture();
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))));
    // As if a group with this number had been refused, and one more had gathered meanwhile.
    store.desk().state().group += 2;
    fail(store.desk(), &CommitError::Behind, &"the disk is slow".into());
    assert!(matches!(claim(store, 2).await, Ok(Claim::Execute(_))));
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))), "it recognises itself");
}

/// A failed engine is opened anew by whoever comes next, and what was written is still there.
#[tokio::test]
async fn a_failed_engine_is_opened_anew() {
    let Fixture { store, .. } = &fixture();
    assert!(matches!(claim(store, 1).await, Ok(Claim::Execute(_))));
    let error = CommitError::Stopped(fjall::Error::Poisoned);
    // The number of the group that failed is never that of a committed one.
    store.desk().state().group += 1;
    fail(store.desk(), &error, &"the engine stopped".into());
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
    let claims: Vec<_> = (0..records)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move { claim(&store, number).await.is_ok() })
        })
        .collect();
    for claim in claims {
        assert!(claim.await.unwrap());
    }
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
    assert!(store.desk().state().recent.len() <= tuning::RECENT_MAX + tuning::SWEEP_SCAN);
}

/// Nobody may wait for ever for a committer that is no more.
#[tokio::test]
async fn a_dead_committer_is_told_at_once() {
    let Fixture { store, .. } = &fixture();
    store.desk().bury();
    let error = claim(store, 1).await.unwrap_err();
    assert!(error.to_string().contains("restart the process"), "{error}");
    assert!(store.health().await.is_err());
}
