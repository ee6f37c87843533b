//! Work that failed for good: its outcome is kept, and nothing else of it.

use std::sync::Mutex;

use semel_core::{Attempt, Fence, Outcome, Policy, Reply, Settlement, Timestamp};
use semel_postgres::transaction::{
    BoxError, Database, Event, Permit, SameTransaction, TransactionClaim, TransactionPool, Tx,
    Work, WorkFuture,
};
use semel_store::Answer;
use tokio::task::JoinHandle;

use crate::bank::{Bank, body, completed, conflict, deposit, id, is_in_flight, never};
use crate::gate::Gate;

/// Books an entry, stages an event, and finds that it cannot be.
fn refused<'w>(work: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    Box::pin(async move {
        work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
        work.stage(Event::new("entries", "100"));
        Ok(Outcome::Failed(Reply::new("no funds")))
    })
}

fn failed() -> Settlement {
    Settlement::Failed(Reply::new("no funds"))
}

#[tokio::test]
async fn a_failure_is_kept_and_replayed_without_rows_and_events() {
    let bank = Bank::open().await;
    let answer = bank.once("k", conflict(), refused).await.unwrap();
    let Answer::Executed { settlement, expires, fence, .. } = answer else { panic!("{answer:?}") };
    assert_eq!((settlement, fence), (failed(), Fence::FIRST));
    assert_eq!(bank.counts().await, [0, 0, 1]);
    let again = bank.once("k", conflict(), never).await.unwrap();
    assert_eq!(again, Answer::Replayed { settlement: failed(), expires });
}

/// A statement of the work failed, so the server has given the transaction up; the work knows why.
#[tokio::test]
async fn a_failure_may_come_from_the_server() {
    let bank = Bank::open().await;
    let work = bank.once("k", conflict(), |work| {
        Box::pin(async move {
            deposit(work).await?;
            let taken = work.execute("INSERT INTO account VALUES ('anna', 0)", &[]).await;
            assert!(taken.is_err());
            Ok(Outcome::Failed(Reply::new("no funds")))
        })
    });
    let answer = work.await.unwrap();
    assert_eq!(answer.reply(), failed().reply());
    assert_eq!(bank.counts().await, [0, 0, 1]);
}

/// What happens between the end of a transaction and the next.
type Between = Box<dyn FnOnce() -> JoinHandle<()> + Send>;

/// The pool, with something else happening after the first transaction that was rolled back.
struct Interrupted {
    pool: TransactionPool,
    between: Mutex<Option<Between>>,
}

impl Interrupted {
    fn new(bank: &Bank, between: impl FnOnce() -> JoinHandle<()> + Send + 'static) -> Self {
        Self { pool: bank.pool.clone(), between: Mutex::new(Some(Box::new(between))) }
    }
}

impl Database for Interrupted {
    type Tx = Tx;

    async fn begin(
        &self,
        same: &SameTransaction,
        attempt: &Attempt,
        policy: &Policy,
    ) -> Result<(Tx, TransactionClaim), BoxError> {
        self.pool.begin(same, attempt, policy).await
    }

    async fn commit(
        &self,
        tx: Tx,
        permit: Permit,
        settlement: &Settlement,
    ) -> Result<Timestamp, BoxError> {
        self.pool.commit(tx, permit, settlement).await
    }

    async fn end(&self, tx: Tx, keep: bool) -> Result<(), BoxError> {
        self.pool.end(tx, keep).await?;
        let between = self.between.lock().unwrap().take();
        if let Some(between) = between {
            between().await?;
        }
        Ok(())
    }
}

/// I4: the work of this attempt failed and was rolled back; before that was recorded, a duplicate did
/// it. There is one outcome, and it is the duplicate's.
#[tokio::test]
async fn a_duplicate_that_is_faster_than_the_failure_counts() {
    let bank = Bank::open().await;
    let pool = bank.pool.clone();
    let interrupted = Interrupted::new(&bank, move || {
        tokio::spawn(async move {
            pool.once(id("k"), body("100"), conflict(), deposit).await.unwrap();
        })
    });
    let once = bank.same().once(&interrupted, id("k"), body("100"), conflict(), refused).await;
    let answer = once.unwrap();
    let Answer::Replayed { settlement, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(settlement, Settlement::Completed(Reply::new("done")));
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// The same, with the duplicate still at work: its outcome is not known yet, and ours does not count.
#[tokio::test]
async fn a_failure_is_not_recorded_while_a_duplicate_works() {
    let bank = Bank::open().await;
    let (gate, inside) = (Gate::new(), Gate::new());
    let (pool, inside_work, reached) = (bank.pool.clone(), gate.clone(), inside.clone());
    let interrupted = Interrupted::new(&bank, move || {
        tokio::spawn(async move {
            let (gate, working) = (inside_work.clone(), reached.clone());
            let duplicate = tokio::spawn(async move {
                let work = pool.once(id("k"), body("100"), conflict(), |_| {
                    let gate = gate.clone();
                    Box::pin(async move {
                        gate.pass().await;
                        Ok(completed("by the duplicate"))
                    })
                });
                work.await.unwrap();
                working.pass().await;
            });
            inside_work.reached().await;
            drop(duplicate);
        })
    });
    let once = bank.same().once(&interrupted, id("k"), body("100"), conflict(), refused).await;
    let answer = once.unwrap();
    assert!(is_in_flight(&answer), "{answer:?}");
    gate.open();
    inside.reached().await;
    let answer = bank.once("k", conflict(), never).await.unwrap();
    assert_eq!(answer.reply(), Some(&Reply::new("by the duplicate")));
}
