//! The connection breaks while the transaction commits. The next try finds the outcome in the record, and
//! the rows are there once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Attempt, Outcome, Policy, Reply, Settlement, Timestamp};
use semel_postgres::transaction::{
    BoxError, Database, Event, Isolation, OnceError, Permit, Retry, SameTransaction,
    TransactionClaim, TransactionPool, Tx,
};
use semel_store::Answer;

use crate::bank::{Bank, STUBBORN, body, conflict, id, is_executed, is_replayed};
use crate::gate::until;
use crate::relay::{Cut, Relay};
use crate::support::options;

/// Books an entry, stages an event, and counts.
struct Counted {
    calls: Arc<AtomicU32>,
    outcome: Outcome,
}

impl Counted {
    fn new(outcome: Outcome) -> Self {
        Self { calls: Arc::default(), outcome }
    }

    fn completed() -> Self {
        Self::new(Outcome::Completed(Reply::new("done")))
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }

    async fn once(&self, pool: &TransactionPool) -> Result<Answer, OnceError> {
        let work = pool.once(id("k"), body("100"), conflict(), |work| {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let outcome = self.outcome.clone();
            Box::pin(async move {
                work.stage(Event::new("entries", "100"));
                work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
                Ok(outcome)
            })
        });
        work.await
    }
}

/// The bank's pool behind a relay.
async fn pool(bank: &Bank, relay: &Relay, isolation: Isolation) -> TransactionPool {
    let options = options(&relay.through(&bank.url));
    let pool = TransactionPool::open_with(options, isolation).await.expect("a pool by the line");
    pool.retry(STUBBORN)
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_done_again() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::Before).await);
        let (pool, work) = (pool(&bank, &relay, isolation).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_executed(&answer) && relay.was_cut(), "{isolation:?}: {answer:?}");
        assert_eq!(work.calls(), 2, "{isolation:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{isolation:?}");
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_not_done_again() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::After).await);
        let (pool, work) = (pool(&bank, &relay, isolation).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_replayed(&answer) && relay.was_cut(), "{isolation:?}: {answer:?}");
        assert_eq!(answer.reply(), Some(&Reply::new("done")), "{isolation:?}");
        assert_eq!(work.calls(), 1, "{isolation:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{isolation:?}");
    }
}

/// Whether the server gets to it is up to the moment; it is done once in any case.
#[tokio::test]
async fn a_commit_whose_answer_is_not_awaited_is_done_once() {
    for _ in 0..5 {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::During).await);
        let (pool, work) = (pool(&bank, &relay, Isolation::Default).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_executed(&answer) || is_replayed(&answer), "{answer:?}");
        assert_eq!(bank.counts().await, [1, 1, 1]);
    }
}

/// The server is still committing when the next try comes, which finds the lock of its own predecessor.
#[tokio::test]
async fn a_try_that_meets_its_own_lost_transaction_waits_for_it() {
    let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::During).await);
    let slow = "
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(''entry''::regclass::bigint); RETURN NEW; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON entry
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
        SELECT pg_advisory_lock('entry'::regclass::bigint)";
    bank.session.batch_execute(slow).await.unwrap();
    let pool = pool(&bank, &relay, Isolation::Default).await;
    let work = Counted::completed();
    let letting_go = async {
        // It was in flight and was retried; or the server noticed earlier.
        let met = async || relay.rollbacks() >= 3 || relay.commits() >= 2;
        until("it meets itself", met).await;
        let unlock = "SELECT pg_advisory_unlock('entry'::regclass::bigint)";
        bank.session.batch_execute(unlock).await.unwrap();
    };
    let (answer, ()) = tokio::join!(work.once(&pool), letting_go);
    let answer = answer.unwrap();
    assert!(is_executed(&answer) || is_replayed(&answer), "{answer:?}");
    assert_eq!(bank.counts().await, [1, 1, 1]);
}

#[tokio::test]
async fn a_failure_is_recorded_once_too() {
    for (cut, calls) in [(Cut::Before, 2), (Cut::After, 1)] {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(cut).await);
        let pool = pool(&bank, &relay, Isolation::Default).await;
        let work = Counted::new(Outcome::Failed(Reply::new("no funds")));
        let answer = work.once(&pool).await.unwrap();
        let settlement = match answer {
            Answer::Executed { settlement, .. } | Answer::Replayed { settlement, .. } => settlement,
            other => panic!("{cut:?}: {other:?}"),
        };
        assert_eq!(settlement, Settlement::Failed(Reply::new("no funds")), "{cut:?}");
        assert_eq!(work.calls(), calls, "{cut:?}");
        assert_eq!(bank.counts().await, [0, 0, 1], "{cut:?}");
    }
}

/// "Nothing was done" is only returned if that is known.
#[tokio::test]
async fn without_a_further_try_the_outcome_is_reported_as_unknown() {
    for cut in [Cut::Before, Cut::After] {
        let (bank, relay) = (Bank::open().await, Relay::cut_once(cut).await);
        let pool = pool(&bank, &relay, Isolation::Default).await;
        let work = Counted::completed();
        let error = work.once(&pool.clone().retry(Retry::NEVER)).await.unwrap_err();
        assert!(matches!(error, OnceError::Lost(_)), "{cut:?}: {error:?}");
        let answer = work.once(&pool).await.unwrap();
        assert_eq!(is_replayed(&answer), cut == Cut::After, "{cut:?}: {answer:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{cut:?}");
    }
}

/// Regression: the second try could not connect, and its "nothing was done" was returned although the
/// first had committed.
#[tokio::test]
async fn if_the_server_is_unreachable_the_doubt_remains() {
    let (bank, relay) = (Bank::open().await, Relay::cut_for_good(Cut::After).await);
    // Each try is in vain.
    let pool = pool(&bank, &relay, Isolation::Default).await.retry(Retry::default());
    let work = Counted::completed();
    let error = work.once(&pool).await.unwrap_err();
    assert!(matches!(error, OnceError::Lost(_)) && relay.was_cut(), "{error:?}");
    assert_eq!(bank.counts().await, [1, 1, 1]);
    // What was never begun leaves no doubt.
    let error = work.once(&pool).await.unwrap_err();
    assert!(matches!(error, OnceError::Unavailable(_)), "{error:?}");
    assert_eq!(work.calls(), 1);
}

/// The connection is cut after the server has granted the claim, without the server's knowledge. The next
/// claim finds the lock of its own predecessor.
#[tokio::test]
async fn a_claim_that_meets_its_own_lost_one_is_not_in_flight() {
    let (bank, relay) = (Bank::open().await, Relay::cut_once(Cut::Claim).await);
    let pool = pool(&bank, &relay, Isolation::Default).await;
    let work = Counted::completed();
    pool.once(id("before"), body("100"), conflict(), crate::bank::deposit).await.unwrap();
    relay.cut_next();
    let result = work.once(&pool.clone().retry(Retry::NEVER)).await;
    let Err(OnceError::Unavailable(_)) = result else { panic!("{result:?}") };
    relay.close_orphans();

    bank.quiet().await;
    relay.cut_next();
    let rolled_back = relay.rollbacks();
    let letting_go = async {
        // It has met itself, and has come again.
        until("it meets itself", async || relay.rollbacks() >= rolled_back + 2).await;
        relay.close_orphans();
    };
    let (answer, ()) = tokio::join!(work.once(&pool), letting_go);
    assert!(is_executed(answer.as_ref().unwrap()), "{answer:?}");
    assert_eq!(work.calls(), 1);
}

/// A driver that does not understand the answer to a commit.
struct Garbled {
    pool: TransactionPool,
    commits: bool,
    left: AtomicU32,
}

impl Database for Garbled {
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
        if self.left.swap(0, Ordering::SeqCst) == 0 {
            return self.pool.commit(tx, permit, settlement).await;
        }
        if self.commits {
            self.pool.commit(tx, permit, settlement).await?;
        }
        Err("unexpected message from server".into())
    }

    async fn end(&self, tx: Tx, keep: bool) -> Result<(), BoxError> {
        self.pool.end(tx, keep).await
    }
}

/// Only the server can say that it did not commit.
#[tokio::test]
async fn a_commit_whose_answer_is_not_understood_is_in_doubt() {
    for commits in [false, true] {
        let bank = Bank::open().await;
        let garbled = || {
            let (pool, left) = (bank.pool.clone(), AtomicU32::new(1));
            Garbled { pool, commits, left }
        };
        let once = async |key, retry| {
            let same = bank.same().retry(retry);
            same.once(&garbled(), id(key), body("100"), conflict(), crate::bank::deposit).await
        };
        let result = once("k", Retry::NEVER).await;
        assert!(matches!(result, Err(OnceError::Lost(_))), "{commits}: {result:?}");
        // The next try finds out.
        let answer = once("l", STUBBORN).await.unwrap();
        assert_eq!(is_replayed(&answer), commits, "{answer:?}");
        assert_eq!(is_executed(&answer), !commits, "{answer:?}");
        let done = if commits { 2 } else { 1 };
        assert_eq!(bank.counts().await, [done, 0, done]);
    }
}
