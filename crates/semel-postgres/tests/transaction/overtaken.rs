//! A permit whose record is no longer what it was at the claim, and a clock that goes back meanwhile.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Claim, Fence, Policy, Release, Reply, Settlement, State};
use semel_postgres::transaction::{
    Event, Isolation, Permit, SameTransaction, SessionError, TransactionClaim,
};
use semel_store::{Answer, Store as _};
use tokio_postgres::error::SqlState;
use tokio_postgres::{IsolationLevel, Transaction};

use crate::bank::{Bank, attempt, completed, conflict, deposit, id, is_executed};
use crate::support::Clocked;

/// What lies under the key before the permit is claimed.
#[derive(Clone, Copy, Debug)]
enum Before {
    Nothing,
    Released,
    Expired,
}

const ALL: [Before; 3] = [Before::Nothing, Before::Released, Before::Expired];

/// A bank by a clock that the test moves.
async fn bank(before: Before, isolation: Isolation) -> (Clocked, Bank) {
    let clocked = Clocked::make().await;
    let bank = Bank::at(&clocked.url, isolation, |options| options).await;
    match before {
        Before::Nothing => {}
        Before::Released => {
            let claim = clocked.store.claim(&attempt("k"), conflict()).await.unwrap();
            let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
            clocked.store.release(&lease, Release::Retry).await.unwrap();
        }
        Before::Expired => {
            let short = Policy::builder().ttl(Duration::from_secs(100)).build().unwrap();
            let work = bank.once("k", &short, |_| Box::pin(async { Ok(completed("long ago")) }));
            work.await.unwrap();
            clocked.advance(short.ttl()).await;
        }
    }
    (clocked, bank)
}

async fn permit(same: &SameTransaction, tx: &mut Transaction<'_>) -> Permit {
    let claim = same.claim(tx, &attempt("k"), conflict()).await.unwrap();
    let TransactionClaim::Execute(permit) = claim else { panic!("{claim:?}") };
    permit
}

fn late() -> Settlement {
    Settlement::Completed(Reply::new("late"))
}

/// Settles, and expects a serialization failure.
async fn assert_refused(permit: Permit, tx: &mut Transaction<'_>, place: &str) {
    let error = permit.settle(tx, &late()).await.expect_err("it must not be settled");
    let SessionError::Driver(error) = error else { panic!("{error}") };
    assert_eq!(error.code().map(SqlState::code), Some("40001"), "{place}: {error}");
}

/// Its locks went with the savepoint, and another transaction has done the work since.
#[tokio::test]
async fn a_permit_of_a_savepoint_that_was_rolled_back_overwrites_nothing() {
    for before in ALL {
        for level in [IsolationLevel::ReadCommitted, IsolationLevel::RepeatableRead] {
            let place = format!("{before:?}, {level:?}");
            let (clocked, bank) = bank(before, Isolation::Default).await;
            let (same, mut client) = (bank.same(), bank.connect().await);
            let mut tx = client.build_transaction().isolation_level(level).start().await.unwrap();
            tx.batch_execute("SAVEPOINT s").await.unwrap();
            let permit = permit(&same, &mut tx).await;
            tx.batch_execute("ROLLBACK TO s").await.unwrap();
            assert!(is_executed(&bank.once("k", conflict(), deposit).await.unwrap()), "{place}");
            assert_refused(permit, &mut tx, &place).await;
            drop(tx);
            let record = clocked.store.inspect(id("k")).await.unwrap().expect("a record");
            let done = Settlement::Completed(Reply::new("done"));
            assert_eq!(record.state, State::Settled(done), "{place}");
        }
    }
}

/// Two permits for one key: one of them is settled.
#[tokio::test]
async fn a_key_that_is_claimed_twice_in_a_transaction_is_settled_once() {
    for before in ALL {
        let (_clocked, bank) = bank(before, Isolation::Default).await;
        let (same, mut client) = (bank.same(), bank.connect().await);
        let mut tx = client.transaction().await.unwrap();
        let (one, two) = (permit(&same, &mut tx).await, permit(&same, &mut tx).await);
        one.settle(&mut tx, &Settlement::Completed(Reply::new("first"))).await.unwrap();
        assert_refused(two, &mut tx, &format!("{before:?}")).await;
    }
}

/// What was found expired stays so: the outcome is kept for all of its retention.
#[tokio::test]
async fn a_new_life_has_its_full_length_though_the_clock_goes_back() {
    // Stricter transactions would not see the test's clock move.
    let (clocked, bank) = bank(Before::Expired, Isolation::ReadCommitted).await;
    let session = Arc::new(bank.connect().await);
    let work = bank.once("k", conflict(), |work| {
        let session = session.clone();
        Box::pin(async move {
            session.batch_execute("UPDATE test_clock SET now_ms = now_ms - 5000").await?;
            deposit(work).await
        })
    });
    let answer = work.await.unwrap();
    let Answer::Executed { expires, fence, .. } = answer else { panic!("{answer:?}") };
    let record = clocked.store.inspect(id("k")).await.unwrap().expect("a record");
    let now = u64::try_from(bank.number("SELECT now_ms FROM test_clock").await).unwrap();
    assert_eq!((record.created.as_millis(), fence), (now, Fence::FIRST));
    assert_eq!(record.expires, record.created.plus(conflict().ttl()));
    assert_eq!(expires, record.expires);
}

/// What replaces an old row is settled by other statements than what is new.
#[tokio::test]
async fn replacing_an_expired_row_writes_its_events() {
    for before in [Before::Released, Before::Expired] {
        for count in 0..3 {
            let (_clocked, bank) = bank(before, Isolation::Default).await;
            let work = bank.once("k", conflict(), |work| {
                (0..count).for_each(|number: i64| {
                    work.stage(Event::new("t", number.to_string()).header("a", "1"));
                });
                deposit(work)
            });
            assert!(is_executed(&work.await.unwrap()), "{before:?}");
            assert_eq!(bank.counts().await, [1, count, 1], "{before:?}");
            let sql = "SELECT count(*) FROM outbox
                       WHERE headers = '{\"a\": \"1\"}' AND topic = 't'
                       AND convert_from(payload, 'UTF8')::bigint = seq - 1";
            assert_eq!(bank.number(sql).await, count, "{before:?}");
        }
    }
}
