//! With a transaction of tokio-postgres that is there already.

use semel_core::{Attempt, Owner, Policy, Reply, Settlement};
use semel_postgres::Options;
use semel_postgres::transaction::{BoxError, Event, SameTransaction, TransactionClaim};
use tokio_postgres::Client;

use super::{BOOK, assert_done_once, database, order, policy};

/// The reply, if there is one by now.
async fn book(
    client: &mut Client,
    same: &SameTransaction,
    attempt: &Attempt,
    policy: &Policy,
) -> Result<Option<Reply>, BoxError> {
    let mut tx = client.transaction().await?;
    let mut permit = match same.claim(&mut tx, attempt, policy).await? {
        TransactionClaim::Execute(permit) => permit,
        TransactionClaim::Replay { settlement, .. } => {
            tx.commit().await?;
            return Ok(settlement.reply().cloned());
        }
        // In flight, a mismatch, unknown: dropping the transaction rolls it back.
        _ => return Ok(None),
    };
    tx.execute(BOOK, &[&"alice", &100_i64]).await?;
    permit.stage(Event::new("entries", r#"{"account":"alice","amount":100}"#));
    let settlement = Settlement::Completed(Reply::new("booked"));
    permit.settle(&mut tx, &settlement).await?;
    tx.commit().await?;
    Ok(settlement.reply().cloned())
}

/// A new owner for each attempt; retries of the same client are attempts of their own.
fn attempt() -> Attempt {
    let (id, fingerprint) = order();
    Attempt::new(id, fingerprint, Owner::from_u128(rand::random()))
}

#[tokio::test]
async fn a_transaction_of_tokio_postgres() {
    let url = database().await;
    let mut client = Options::from_url(&url).unwrap().connect().await.unwrap();
    let same = SameTransaction::new();
    for _ in 0..3 {
        let reply = book(&mut client, &same, &attempt(), &policy()).await.unwrap();
        assert_eq!(reply, Some(Reply::new("booked")));
    }
    assert_done_once(&url).await;
}

/// Another transaction works on it: the answer comes without a wait, and nothing is done.
#[tokio::test]
async fn a_duplicate_is_answered_at_once() {
    let url = database().await;
    let options = Options::from_url(&url).unwrap();
    let (mut first, mut second) =
        (options.connect().await.unwrap(), options.connect().await.unwrap());
    let same = SameTransaction::new();
    let mut tx = first.transaction().await.unwrap();
    let claim = same.claim(&mut tx, &attempt(), &policy()).await.unwrap();
    assert!(matches!(claim, TransactionClaim::Execute(_)), "{claim:?}");
    assert_eq!(book(&mut second, &same, &attempt(), &policy()).await.unwrap(), None);
    // It is rolled back, and it is as if nothing had happened.
    tx.rollback().await.unwrap();
    let reply = book(&mut second, &same, &attempt(), &policy()).await.unwrap();
    assert_eq!(reply, Some(Reply::new("booked")));
    assert_done_once(&url).await;
}
