//! A transaction that the caller already has, of tokio-postgres.

use std::error::Error as _;

use semel_core::{Fence, Reply, Settlement};
use semel_postgres::transaction::{Event, Permit, SameTransaction, SessionError, TransactionClaim};
use semel_store::{Answer, Store as _};
use tokio_postgres::{IsolationLevel, Transaction};

use crate::bank::{Bank, attempt, conflict, deposit, is_executed, is_in_flight, never};

const DEPOSIT: &str = "INSERT INTO entry VALUES (100)";

fn done() -> Settlement {
    Settlement::Completed(Reply::new("done"))
}

/// Claims, and demands to be let in.
async fn permit(same: &SameTransaction, tx: &mut Transaction<'_>, key: &str) -> Permit {
    let claim = same.claim(tx, &attempt(key), conflict()).await.unwrap();
    let TransactionClaim::Execute(permit) = claim else { panic!("{claim:?}") };
    permit
}

/// The server's SQLSTATE, found among the causes.
fn state_of(error: &SessionError<tokio_postgres::Error>) -> &str {
    let cause = error.source().and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    cause.and_then(tokio_postgres::Error::code).expect("an error of the server").code()
}

#[tokio::test]
async fn it_commits_rows_events_and_record_together() {
    let bank = Bank::open().await;
    let (same, mut client) = (bank.same(), bank.connect().await);
    let mut tx = client.transaction().await.unwrap();
    let mut permit = permit(&same, &mut tx, "k").await;
    assert_eq!(permit.fence(), Fence::FIRST);
    tx.execute(DEPOSIT, &[]).await.unwrap();
    permit.stage(Event::new("entries", "100"));
    let expires = permit.settle(&mut tx, &done()).await.unwrap();
    assert_eq!(bank.counts().await, [0, 0, 0]);
    tx.commit().await.unwrap();
    assert_eq!(bank.counts().await, [1, 1, 1]);

    let mut tx = client.transaction().await.unwrap();
    let claim = same.claim(&mut tx, &attempt("k"), conflict()).await.unwrap();
    let TransactionClaim::Replay { settlement, expires: again } = claim else {
        panic!("{claim:?}")
    };
    assert_eq!((settlement, again), (done(), expires));
    // The pool sees it too.
    let answer = bank.once("k", conflict(), never).await.unwrap();
    assert_eq!(answer, Answer::Replayed { settlement: done(), expires });
}

#[tokio::test]
async fn rolled_back_it_leaves_nothing() {
    let bank = Bank::open().await;
    let (same, mut client) = (bank.same(), bank.connect().await);
    for settles in [false, true] {
        let mut tx = client.transaction().await.unwrap();
        let mut permit = permit(&same, &mut tx, "k").await;
        tx.execute(DEPOSIT, &[]).await.unwrap();
        permit.stage(Event::new("entries", "100"));
        if settles {
            permit.settle(&mut tx, &done()).await.unwrap();
        }
        tx.rollback().await.unwrap();
        assert_eq!(bank.counts().await, [0, 0, 0], "settles: {settles}");
    }
    assert!(is_executed(&bank.once("k", conflict(), deposit).await.unwrap()));
}

#[tokio::test]
async fn it_is_in_flight_for_the_pool_until_it_ends() {
    let bank = Bank::open().await;
    let (same, mut client) = (bank.same(), bank.connect().await);
    let mut tx = client.transaction().await.unwrap();
    let permit = permit(&same, &mut tx, "k").await;
    assert!(is_in_flight(&bank.once("k", conflict(), never).await.unwrap()));
    // Settled, but not yet committed.
    permit.settle(&mut tx, &done()).await.unwrap();
    assert!(is_in_flight(&bank.once("k", conflict(), never).await.unwrap()));
    tx.commit().await.unwrap();
    assert_eq!(bank.once("k", conflict(), never).await.unwrap().reply(), done().reply());
}

#[tokio::test]
async fn several_keys_may_share_a_transaction() {
    let bank = Bank::open().await;
    let (same, mut client) = (bank.same(), bank.connect().await);
    let mut tx = client.transaction().await.unwrap();
    let (one, two) = (permit(&same, &mut tx, "k1").await, permit(&same, &mut tx, "k2").await);
    tx.execute(DEPOSIT, &[]).await.unwrap();
    one.settle(&mut tx, &done()).await.unwrap();
    two.settle(&mut tx, &Settlement::Failed(Reply::new("no"))).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(bank.counts().await, [1, 0, 2]);
}

/// What was settled in this very transaction is known to it.
#[tokio::test]
async fn a_key_that_comes_twice_in_a_transaction_is_replayed() {
    for isolation in [IsolationLevel::ReadCommitted, IsolationLevel::Serializable] {
        let bank = Bank::open().await;
        let (same, mut client) = (bank.same(), bank.connect().await);
        let mut tx = client.build_transaction().isolation_level(isolation).start().await.unwrap();
        let first = permit(&same, &mut tx, "k").await;
        first.settle(&mut tx, &done()).await.unwrap();
        let claim = same.claim(&mut tx, &attempt("k"), conflict()).await.unwrap();
        assert!(matches!(claim, TransactionClaim::Replay { .. }), "{isolation:?}: {claim:?}");
    }
}

/// A transaction that has read anything before it claims does not see what was committed since. So it
/// must not execute: its work would fail in ways that are hard to explain.
#[tokio::test]
async fn a_transaction_on_an_old_snapshot_gets_a_serialization_failure() {
    for isolation in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let bank = Bank::open().await;
        let (same, mut client) = (bank.same(), bank.connect().await);
        let mut tx = client.build_transaction().isolation_level(isolation).start().await.unwrap();
        tx.query("SELECT 1 FROM account", &[]).await.unwrap();
        bank.once("k", conflict(), deposit).await.unwrap();
        let error = same.claim(&mut tx, &attempt("k"), conflict()).await.unwrap_err();
        assert_eq!(state_of(&error), "40001", "{isolation:?}");
    }
}

/// Its lock and the rows of its work are gone: the settle must fail.
#[tokio::test]
async fn a_permit_is_of_no_use_in_another_transaction() {
    let bank = Bank::open().await;
    let (same, mut client) = (bank.same(), bank.connect().await);
    let mut tx = client.transaction().await.unwrap();
    let permit = permit(&same, &mut tx, "k").await;
    tx.execute(DEPOSIT, &[]).await.unwrap();
    tx.rollback().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    let error = permit.settle(&mut tx, &done()).await.unwrap_err();
    assert_eq!(state_of(&error), "25000", "{error:?}");
    tx.commit().await.unwrap();
    assert_eq!(bank.counts().await, [0, 0, 0]);
}

/// The last word is the table's.
#[tokio::test]
async fn a_record_that_came_from_elsewhere_cannot_be_settled_over() {
    let bank = Bank::open().await;
    let (same, store, mut client) = (bank.same(), bank.store().await, bank.connect().await);
    let mut tx = client.transaction().await.unwrap();
    let permit = permit(&same, &mut tx, "k").await;
    tx.execute(DEPOSIT, &[]).await.unwrap();
    let claim = store.claim(&attempt("k"), conflict()).await.unwrap();
    assert!(matches!(claim, semel_core::Claim::Execute(_)), "{claim:?}");
    permit.settle(&mut tx, &done()).await.unwrap_err();
    // The server does not let it.
    tx.commit().await.unwrap();
    assert_eq!(bank.counts().await, [0, 0, 1]);
}
