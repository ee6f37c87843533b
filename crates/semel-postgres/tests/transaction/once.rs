//! Work is done once, its outcome is given again byte for byte, and all of it is one commit.

use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::{Fence, Outcome, Reply, ResultId, Settlement};
use semel_postgres::transaction::{Event, Tx, Work, WorkFuture};
use semel_store::{Answer, Store as _, Stored};

use crate::bank::{Bank, completed, conflict, deposit, id, is_executed, is_replayed, never};
use crate::gate::Gate;

/// Replies that are easily broken.
fn replies() -> Vec<(&'static str, Reply)> {
    let every_byte: Vec<u8> = (0..=u8::MAX).cycle().take(1_000).collect();
    let named = |id: &str| Reply::new("made").with_result(ResultId::new(id).unwrap());
    vec![
        ("empty", Reply::default()),
        ("binary", Reply::new(every_byte)),
        ("invalid-utf-8", Reply::new(vec![0xff, 0xfe, 0, 0xc3])),
        ("beyond-a-page", Reply::new(vec![0xa5; 300_000])),
        ("named", named("charge-4711")),
        ("named-oddly", named("Überweisung 'n\" \\ 🏦")),
        ("empty-and-named", Reply::default().with_result(ResultId::new("x").unwrap())),
    ]
}

#[tokio::test]
async fn an_outcome_is_replayed_byte_for_byte() {
    let bank = Bank::open().await;
    let store = bank.store().await;
    for (key, reply) in replies() {
        let outcome = Outcome::Completed(reply.clone());
        let work = bank.once(key, conflict(), |_| {
            let outcome = outcome.clone();
            Box::pin(async { Ok(outcome) })
        });
        let answer = work.await.unwrap();
        let Answer::Executed { settlement, expires, fence, stored } = answer else {
            panic!("{key}: {answer:?}")
        };
        assert_eq!(settlement, Settlement::Completed(reply), "{key}");
        assert_eq!((fence, stored), (Fence::FIRST, Stored::Durable), "{key}");
        for _ in 0..2 {
            let again = bank.once(key, conflict(), never).await.unwrap();
            let settlement = settlement.clone();
            assert_eq!(again, Answer::Replayed { settlement, expires }, "{key}");
        }
        let record = store.inspect(id(key)).await.unwrap().expect("a record");
        assert_eq!((record.expires, record.fence), (expires, fence), "{key}");
        assert_eq!(record.created.plus(conflict().ttl()), expires, "{key}");
    }
}

#[tokio::test]
async fn work_is_called_once_however_often_it_is_asked_for() {
    let bank = Bank::open().await;
    let calls = AtomicU32::new(0);
    for round in 0..5 {
        let work = bank.once("k", conflict(), |work| {
            calls.fetch_add(1, Ordering::Relaxed);
            deposit(work)
        });
        let answer = work.await.unwrap();
        assert_eq!(is_executed(&answer), round == 0, "{answer:?}");
        assert_eq!(is_replayed(&answer), round > 0, "{answer:?}");
    }
    assert_eq!(calls.into_inner(), 1);
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// Books an entry and stages two events, in this order.
fn announced<'w>(work: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    Box::pin(async move {
        work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
        let first = Event::new("entries", vec![0, 0xff, b'x']).key("anna");
        work.stage(first.header("a", "1").header("b", "\"2\"").header("a", "3"));
        work.stage(Event::new("audit", ""));
        Ok(completed("done"))
    })
}

/// The same with the first of them alone.
fn announced_briefly<'w>(work: &'w mut Work<'_, Tx>) -> WorkFuture<'w> {
    Box::pin(async move {
        let event = Event::new("entries", vec![0, 0xff, b'x']).key("anna");
        work.stage(event.header("a", "1").header("b", "\"2\"").header("a", "3"));
        Ok(completed("done"))
    })
}

#[tokio::test]
async fn rows_events_and_record_are_one_commit() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let working = bank.once("k", conflict(), |work| {
        let gate = gate.clone();
        Box::pin(async move {
            let outcome = announced(work).await;
            gate.pass().await;
            outcome
        })
    });
    let looking = async {
        gate.reached().await;
        assert_eq!(bank.counts().await, [0, 0, 0], "nothing is seen before it is all there");
        gate.open();
    };
    let (answer, ()) = tokio::join!(working, looking);
    assert!(is_executed(&answer.unwrap()));
    assert_eq!(bank.counts().await, [1, 2, 1]);
    // Each row knows the transaction that wrote it.
    let one = "SELECT count(DISTINCT x) FROM (SELECT xmin::text x FROM entry
               UNION ALL SELECT xmin::text FROM outbox UNION ALL SELECT xmin::text FROM record) t";
    assert_eq!(bank.number(one).await, 1);
}

/// One event is written by another statement than several are.
#[tokio::test]
async fn events_are_kept_as_they_were_staged() {
    for work in [announced, announced_briefly] {
        as_staged(work).await;
    }
}

async fn as_staged(work: for<'w> fn(&'w mut Work<'_, Tx>) -> WorkFuture<'w>) {
    let bank = Bank::open().await;
    bank.once("k", conflict(), work).await.unwrap();
    let sql = "SELECT topic, key, headers::text, payload, record, type = topic, not_before IS NULL
               FROM outbox ORDER BY seq";
    let rows = bank.session.query(sql, &[]).await.unwrap();
    let result: Vec<(&str, Option<&str>, &str, &[u8])> =
        rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect();
    let headers = r#"{"a": "3", "b": "\"2\""}"#;
    let expected: [(&str, Option<&str>, &str, &[u8]); 2] =
        [("entries", Some("anna"), headers, b"\x00\xffx"), ("audit", None, "{}", b"")];
    assert!(!result.is_empty());
    assert_eq!(result, expected[..result.len()]);
    for row in rows {
        assert_eq!(row.get::<_, &[u8]>(4), id("k").as_bytes());
        assert!(row.get(5) && row.get(6));
    }
}

/// The ids of all events, in order.
async fn event_ids(bank: &Bank) -> Vec<String> {
    let rows = bank.session.query("SELECT event::text FROM outbox ORDER BY seq", &[]).await;
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

/// Also those of a key that is used again when it is long forgotten.
#[tokio::test]
async fn no_two_events_have_the_same_id() {
    let bank = Bank::open().await;
    for key in ["k", "l", "k"] {
        bank.once(key, conflict(), announced).await.unwrap();
        bank.session.batch_execute("UPDATE record SET expires = 0").await.unwrap();
    }
    let mut ids = event_ids(&bank).await;
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
}

#[tokio::test]
async fn many_events_keep_their_order() {
    let bank = Bank::open().await;
    let work = bank.once("k", conflict(), |work| {
        (0..500).for_each(|number| work.stage(Event::new("t", number.to_string())));
        Box::pin(async { Ok(completed("done")) })
    });
    work.await.unwrap();
    let sql = "SELECT count(*) FROM (SELECT payload, row_number() OVER (ORDER BY seq) - 1 AS place
               FROM outbox) e WHERE convert_from(payload, 'UTF8') = place::text";
    assert_eq!(bank.number(sql).await, 500);
}
