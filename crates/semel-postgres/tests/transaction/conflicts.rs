//! Conflicting transactions: retried until done, and done once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Outcome, Reply};
use semel_postgres::transaction::{Event, Isolation, OnceError, Retry, Tx, Work, WorkFuture};
use semel_store::Answer;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::bank::{Bank, STUBBORN, body, completed, conflict, deposit, id, is_executed};

/// Work that counts its calls, and in which the first two calls meet.
#[derive(Clone, Debug)]
struct Meeting {
    calls: Arc<AtomicU32>,
    both: Arc<Barrier>,
}

impl Meeting {
    fn new() -> Self {
        Self { calls: Arc::default(), both: Arc::new(Barrier::new(2)) }
    }

    fn call(&self) -> u32 {
        self.calls.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Waits for the other one, if this is one of the first two calls.
    async fn meet(&self, call: u32) {
        if call <= 2 {
            self.both.wait().await;
        }
    }

    fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
}

async fn balance(work: &Work<'_, Tx>, name: &str) -> Result<i64, tokio_postgres::Error> {
    let sql = "SELECT balance FROM account WHERE name = $1";
    Ok(work.query_one(sql, &[&name]).await?.get(0))
}

async fn add(work: &Work<'_, Tx>, name: &str, amount: i64) -> Result<(), tokio_postgres::Error> {
    let sql = "UPDATE account SET balance = balance + $2 WHERE name = $1";
    work.execute(sql, &[&name, &amount]).await.map(drop)
}

/// Runs the same work under two keys at once.
async fn two<W>(bank: &Bank, work: W) -> [Result<Answer, OnceError>; 2]
where
    W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send + Clone,
{
    let (one, other) =
        (bank.once("k1", conflict(), work.clone()), bank.once("k2", conflict(), work));
    let (one, other) = tokio::join!(one, other);
    [one, other]
}

/// Runs work under that many keys at once, and demands that all of it is executed.
async fn run_many<W>(bank: &Bank, size: usize, work: W)
where
    W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send + Clone + 'static,
{
    let mut run_many = JoinSet::new();
    for number in 0..size {
        let (pool, work) = (bank.pool.clone().retry(STUBBORN), work.clone());
        let id = id(&format!("contention-{number}"));
        run_many.spawn(async move { pool.once(id, body("100"), conflict(), work).await });
    }
    for answer in run_many.join_all().await {
        let answer = answer.unwrap();
        assert!(is_executed(&answer), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn work_on_different_things_is_not_in_each_others_way() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
    {
        let bank = Bank::isolated(isolation).await;
        let meeting = Meeting::new();
        let answers = two(&bank, |work| {
            let meeting = meeting.clone();
            Box::pin(async move {
                let call = meeting.call();
                meeting.meet(call).await;
                work.execute("INSERT INTO entry VALUES (1)", &[]).await?;
                meeting.meet(call).await;
                Ok(completed("done"))
            })
        })
        .await;
        assert!(answers.iter().all(|answer| is_executed(answer.as_ref().unwrap())));
        assert_eq!(meeting.calls(), 2, "{isolation:?}");
    }
}

/// A small table is read from end to end, so that a look at it would be a look at all keys.
#[tokio::test]
async fn a_claim_does_not_read_the_records_of_others() {
    let bank = Bank::isolated(Isolation::Serializable).await;
    bank.once("first", conflict(), deposit).await.unwrap();
    bank.session.batch_execute("ANALYZE record").await.unwrap();
    // More often than it takes for a statement to get a lasting plan.
    for round in 0..12 {
        let key = format!("k-{round}");
        let work = bank.once(&key, conflict(), |work| {
            Box::pin(async move {
                let sql = "SELECT count(*) FROM pg_locks
                           WHERE pid = pg_backend_pid() AND mode = 'SIReadLock'";
                let locks: i64 = work.query_one(sql, &[]).await?.get(0);
                assert_eq!(locks, 0, "round {round}");
                Ok(completed("done"))
            })
        });
        assert!(is_executed(&work.await.unwrap()));
    }
}

/// Both read a balance, and both write what they make of it: one of them must read again.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_not_lost() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let bank = Bank::isolated(isolation).await;
        let meeting = Meeting::new();
        let answers = two(&bank, |work| {
            let meeting = meeting.clone();
            Box::pin(async move {
                let read = balance(work, "anna").await?;
                meeting.meet(meeting.call()).await;
                let sql = "UPDATE account SET balance = $1 WHERE name = 'anna'";
                work.execute(sql, &[&(read + 1)]).await?;
                work.stage(Event::new("t", "added"));
                Ok(completed("done"))
            })
        })
        .await;
        assert!(answers.iter().all(|answer| is_executed(answer.as_ref().unwrap())));
        assert!(meeting.calls() >= 3, "{isolation:?}: there was no conflict");
        assert_eq!(bank.number("SELECT balance FROM account WHERE name = 'anna'").await, 2);
        assert_eq!(bank.counts().await, [0, 2, 2], "{isolation:?}");
    }
}

/// Each may take the last 100 if the other has not. Both read before either has: the one that commits
/// later must read again. Which statement fails (one of the work, the settle or the commit) depends on
/// the timing.
#[tokio::test(flavor = "multi_thread")]
async fn reads_are_still_true_at_the_commit() {
    for meet_late in [false, true] {
        let bank = Bank::isolated(Isolation::Serializable).await;
        bank.session.batch_execute("UPDATE account SET balance = 100").await.unwrap();
        let (meeting, free) = (Meeting::new(), Arc::new(AtomicU32::new(0)));
        let answers = two(&bank, |work| {
            let (meeting, free) = (meeting.clone(), free.clone());
            Box::pin(async move {
                let call = meeting.call();
                // Each takes from its own account.
                let name =
                    if free.fetch_add(1, Ordering::SeqCst) % 2 == 0 { "anna" } else { "bert" };
                let sum = balance(work, "anna").await? + balance(work, "bert").await?;
                meeting.meet(call).await;
                if sum < 200 {
                    return Ok(Outcome::Failed(Reply::new("no funds")));
                }
                add(work, name, -100).await?;
                if meet_late {
                    meeting.meet(call).await;
                }
                Ok(completed("taken"))
            })
        })
        .await;
        let mut replies: Vec<_> =
            answers.iter().map(|answer| answer.as_ref().unwrap().reply().cloned()).collect();
        replies.sort_by_key(|reply| reply.as_ref().map(|reply| reply.bytes().clone()));
        let expected = ["no funds", "taken"].map(|text| Some(Reply::new(text)));
        assert_eq!(replies, expected, "late: {meet_late}");
        assert!(meeting.calls() >= 3, "late: {meet_late}: there was no conflict");
        assert_eq!(bank.number("SELECT sum(balance)::bigint FROM account").await, 100);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_updates_of_one_account_add_up() {
    for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
        let bank = Bank::isolated(isolation).await;
        run_many(&bank, 24, |work| {
            Box::pin(async move {
                let read = balance(work, "anna").await?;
                let sql = "UPDATE account SET balance = $1 WHERE name = 'anna'";
                work.execute(sql, &[&(read + 1)]).await?;
                deposit(work).await
            })
        })
        .await;
        assert_eq!(bank.number("SELECT balance FROM account WHERE name = 'anna'").await, 24);
        assert_eq!(bank.counts().await, [24, 0, 24], "{isolation:?}");
    }
}

/// Each holds what the other wants.
#[tokio::test(flavor = "multi_thread")]
async fn the_victim_of_a_deadlock_is_tried_again() {
    let bank = Bank::open().await;
    let meeting = Meeting::new();
    let answers = two(&bank, |work| {
        let meeting = meeting.clone();
        Box::pin(async move {
            let call = meeting.call();
            let [first, second] = if call == 1 { ["anna", "bert"] } else { ["bert", "anna"] };
            add(work, first, 1).await?;
            meeting.meet(call).await;
            add(work, second, 1).await?;
            Ok(completed("done"))
        })
    })
    .await;
    assert!(answers.iter().all(|answer| is_executed(answer.as_ref().unwrap())));
    assert!(meeting.calls() >= 3, "there was no deadlock");
    assert_eq!(bank.number("SELECT sum(balance)::bigint FROM account").await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_deadlocks_are_all_resolved() {
    let bank = Bank::open().await;
    run_many(&bank, 24, |work| {
        Box::pin(async move {
            let [first, second] = if rand::random() { ["anna", "bert"] } else { ["bert", "anna"] };
            add(work, first, 1).await?;
            add(work, second, 1).await?;
            deposit(work).await
        })
    })
    .await;
    assert_eq!(bank.number("SELECT sum(balance)::bigint FROM account").await, 48);
    assert_eq!(bank.counts().await, [24, 0, 24]);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_retries_a_conflict_is_an_error_and_leaves_nothing() {
    let mut bank = Bank::isolated(Isolation::Serializable).await;
    bank.pool = bank.pool.retry(Retry::NEVER);
    let meeting = Meeting::new();
    let answers = two(&bank, |work| {
        let meeting = meeting.clone();
        Box::pin(async move {
            balance(work, "anna").await?;
            meeting.meet(meeting.call()).await;
            add(work, "anna", 1).await?;
            deposit(work).await
        })
    })
    .await;
    let failed: Vec<_> = answers.iter().filter_map(|answer| answer.as_ref().err()).collect();
    let [OnceError::Work(error)] = failed[..] else { panic!("{answers:?}") };
    let error = error.downcast_ref::<tokio_postgres::Error>().unwrap();
    assert_eq!(error.code().unwrap().code(), "40001", "{error}");
    assert_eq!(meeting.calls(), 2);
    assert_eq!(bank.counts().await, [1, 0, 1]);
}
