//! A process without file descriptors. The story: a worker of the database could not open its next file and ended, the
//! store counted as away, and a route with `on_store_down = "open"` would have executed without protection.
//!
//! One test: it takes the descriptors of the whole process.

use semel_core::{Claim, Policy, Reply, Settlement, State};
use semel_crash_tests::ledger::Name;
use semel_embedded::{Durability, EmbeddedStore, Options};
use semel_store::{Settled, Store as _, StoreError};
use semel_testserver::NoDescriptors;

/// Much less than the database gathers before it must open a file.
const REPLY: usize = 16 << 10;

async fn settle(store: &EmbeddedStore, number: u32) -> Result<(), StoreError> {
    let attempt = Name { run: 0, number }.attempt();
    let Claim::Execute(lease) = store.claim(&attempt, &Policy::default()).await? else {
        panic!("{number} was claimed before");
    };
    let reply = Settlement::Completed(Reply::new(vec![7; REPLY]));
    assert_eq!(store.settle(&lease, reply).await?, Settled::Recorded);
    Ok(())
}

async fn assert_kept(store: &EmbeddedStore, number: u32) {
    let record = store.inspect(Name { run: 0, number }.id()).await.expect("an answer");
    assert!(matches!(record.expect("it is kept").state, State::Settled(_)), "{number}");
}

#[tokio::test]
async fn a_store_without_descriptors_is_not_away_and_comes_back() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = Options::new(directory.path().join("store"))
        .durability(Durability::Process)
        .memtable_bytes(1 << 20)
        .sweep_every(None)
        .open()
        .expect("a store");
    settle(&store, 0).await.expect("a store");

    let none = NoDescriptors::begin();
    let refused = (1..10_000).map(async |number| (number, settle(&store, number).await));
    let mut first = None;
    for settled in refused {
        if let (number, Err(error)) = settled.await {
            assert!(error.is_passing(), "{error}");
            first = Some((number, error));
            break;
        }
    }
    let (number, error) = first.expect("the database needs a file at some time");
    assert!(error.is_local(), "{error:?}");
    // The next operation tries to reopen the database, and gets the error.
    for next in number + 1..number + 4 {
        let error = settle(&store, next).await.expect_err("it can open nothing");
        assert!(matches!(error, StoreError::NotAsked { .. }), "{error:?}");
        assert!(error.to_string().contains("LimitNOFILE"), "{error}");
    }
    assert!(store.health().await.expect_err("it can write nothing").is_local());
    // What was settled is read as long as the failed database is kept.
    assert_kept(&store, 0).await;

    drop(none);
    for next in number + 4..number + 100 {
        settle(&store, next).await.expect("descriptors are back");
    }
    for kept in (0..number).chain(number + 4..number + 100) {
        assert_kept(&store, kept).await;
    }
}
