//! The connection breaks while the transaction commits: has it, or has it not? The next try is told by
//! the record, and the rows are there once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Attempt, Outcome, Policy, Reply, Settlement, Timestamp};
use semel_engine::Answer;
use semel_postgres::transaction::{
    BoxError, Database, Event, Isolation, OnceError, Permit, Retry, SameTransaction,
    TransactionClaim, TransactionPool, Tx,
};

use crate::bank::{Bank, STUBBORN, body, conflict, id, is_executed, is_replayed};
use crate::gate::until;
use crate::line::{Cut, Line};
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

/// The bank's pool by a line of its own.
async fn pool(bank: &Bank, line: &Line, isolation: Isolation) -> TransactionPool {
    let options = options(&line.through(&bank.url));
    let pool = TransactionPool::open_with(options, isolation).await.expect("a pool by the line");
    pool.retry(STUBBORN)
}

#[tokio::test]
async fn a_commit_that_never_arrived_is_done_again() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let (bank, line) = (Bank::open().await, Line::cut_once(Cut::Before).await);
        let (pool, work) = (pool(&bank, &line, isolation).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_executed(&answer) && line.was_cut(), "{isolation:?}: {answer:?}");
        assert_eq!(work.calls(), 2, "{isolation:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{isolation:?}");
    }
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_not_done_again() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let (bank, line) = (Bank::open().await, Line::cut_once(Cut::After).await);
        let (pool, work) = (pool(&bank, &line, isolation).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_replayed(&answer) && line.was_cut(), "{isolation:?}: {answer:?}");
        assert_eq!(answer.reply(), Some(&Reply::new("done")), "{isolation:?}");
        assert_eq!(work.calls(), 1, "{isolation:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{isolation:?}");
    }
}

/// Whether the server gets to it is up to the moment; it is done once in any case.
#[tokio::test]
async fn a_commit_that_nobody_waits_for_is_done_once() {
    for _ in 0..5 {
        let (bank, line) = (Bank::open().await, Line::cut_once(Cut::During).await);
        let (pool, work) = (pool(&bank, &line, Isolation::Default).await, Counted::completed());
        let answer = work.once(&pool).await.unwrap();
        assert!(is_executed(&answer) || is_replayed(&answer), "{answer:?}");
        assert_eq!(bank.counts().await, [1, 1, 1]);
    }
}

/// The server is still committing when the next try comes, which therefore meets nobody but itself.
#[tokio::test]
async fn a_try_that_meets_its_own_lost_transaction_waits_for_it() {
    let (bank, line) = (Bank::open().await, Line::cut_once(Cut::During).await);
    let slow = "
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock_shared(''entry''::regclass::bigint); RETURN NEW; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON entry
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow();
        SELECT pg_advisory_lock('entry'::regclass::bigint)";
    bank.session.batch_execute(slow).await.unwrap();
    let pool = pool(&bank, &line, Isolation::Default).await;
    let work = Counted::completed();
    let letting_go = async {
        // Told to be in flight, and having come again; or the server has noticed before that.
        let met = async || line.rollbacks() >= 3 || line.commits() >= 2;
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
        let (bank, line) = (Bank::open().await, Line::cut_once(cut).await);
        let pool = pool(&bank, &line, Isolation::Default).await;
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

/// Nobody says "nothing was done" who cannot know it.
#[tokio::test]
async fn without_a_further_try_the_caller_is_told_that_nobody_knows() {
    for cut in [Cut::Before, Cut::After] {
        let (bank, line) = (Bank::open().await, Line::cut_once(cut).await);
        let pool = pool(&bank, &line, Isolation::Default).await;
        let work = Counted::completed();
        let error = work.once(&pool.clone().retry(Retry::NEVER)).await.unwrap_err();
        assert!(matches!(error, OnceError::Lost(_)), "{cut:?}: {error:?}");
        let answer = work.once(&pool).await.unwrap();
        assert_eq!(is_replayed(&answer), cut == Cut::After, "{cut:?}: {answer:?}");
        assert_eq!(bank.counts().await, [1, 1, 1], "{cut:?}");
    }
}

/// The story: the second try could not connect, and its "nothing was done" was told although the first
/// had committed.
#[tokio::test]
async fn if_nobody_can_be_asked_the_doubt_remains() {
    let (bank, line) = (Bank::open().await, Line::cut_for_good(Cut::After).await);
    // Each try is in vain.
    let pool = pool(&bank, &line, Isolation::Default).await.retry(Retry::default());
    let work = Counted::completed();
    let error = work.once(&pool).await.unwrap_err();
    assert!(matches!(error, OnceError::Lost(_)) && line.was_cut(), "{error:?}");
    assert_eq!(bank.counts().await, [1, 1, 1]);
    // What was never begun leaves no doubt.
    let error = work.once(&pool).await.unwrap_err();
    assert!(matches!(error, OnceError::Unavailable(_)), "{error:?}");
    assert_eq!(work.calls(), 1);
}

/// The connection is cut when the server has granted the claim and does not know yet that nobody heard.
/// The next claim meets that one, which is nobody else's.
#[tokio::test]
async fn a_claim_that_meets_its_own_lost_one_is_not_told_that_it_is_in_flight() {
    let (bank, line) = (Bank::open().await, Line::cut_once(Cut::Claim).await);
    let pool = pool(&bank, &line, Isolation::Default).await;
    let work = Counted::completed();
    pool.once(id("before"), body("100"), conflict(), crate::bank::deposit).await.unwrap();
    line.cut_next();
    let told = work.once(&pool.clone().retry(Retry::NEVER)).await;
    let Err(OnceError::Unavailable(_)) = told else { panic!("{told:?}") };
    line.lay_ghosts();

    bank.quiet().await;
    line.cut_next();
    let rolled_back = line.rollbacks();
    let letting_go = async {
        // It has met itself, and has come again.
        until("it meets itself", async || line.rollbacks() >= rolled_back + 2).await;
        line.lay_ghosts();
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
        let told = once("k", Retry::NEVER).await;
        assert!(matches!(told, Err(OnceError::Lost(_))), "{commits}: {told:?}");
        // The next try finds out.
        let answer = once("l", STUBBORN).await.unwrap();
        assert_eq!(is_replayed(&answer), commits, "{answer:?}");
        assert_eq!(is_executed(&answer), !commits, "{answer:?}");
        let done = if commits { 2 } else { 1 };
        assert_eq!(bank.counts().await, [done, 0, done]);
    }
}
