//! The inbox in the same transaction, on a real server.
#![cfg(feature = "postgres")]
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

use semel_messaging::{EventId, Failure, Handled, InboxRules, Message, TransactionalInbox};
use semel_postgres::transaction::{Event, TransactionPool};
use semel_postgres::{Options, migrate};
use semel_testserver::Postgres;
use tokio_postgres::{Client, NoTls};

type Inbox = TransactionalInbox<TransactionPool>;

/// A schema of its own with a table for the work, an inbox over it, and a session that looks.
async fn bank(schema: &str) -> (Inbox, Client) {
    let url =
        format!("{}?schema={schema}&options=-c%20search_path%3D{schema}", Postgres::shared().url());
    let options = || Options::from_url(&url).unwrap();
    migrate(&options()).await.unwrap();
    let (session, connection) =
        tokio_postgres::connect(&Postgres::shared().url(), NoTls).await.unwrap();
    tokio::spawn(connection);
    let table = format!("SET search_path = {schema}; CREATE TABLE entry (amount bigint NOT NULL)");
    session.batch_execute(&table).await.unwrap();
    let pool = TransactionPool::open(options()).await.unwrap();
    let rules = InboxRules { attempts_max: 3, ..InboxRules::default() };
    (TransactionalInbox::pooled(pool, "ledger").rules(rules), session)
}

fn message(id: &str) -> Message {
    Message::new(EventId::parse(id).unwrap(), "100")
}

/// A delivery whose work writes a row and an event, and then ends with this result.
async fn deliver(inbox: &Inbox, message: &Message, result: fn() -> Result<(), Failure>) -> Handled {
    let handled = inbox.once(message, "entry", |work| {
        Box::pin(async move {
            work.execute("INSERT INTO entry VALUES (100)", &[]).await?;
            work.stage(Event::new("entries", "100"));
            result()
        })
    });
    handled.await
}

/// The rows of the work, of the outbox and of the records.
async fn counts(session: &Client) -> [i64; 3] {
    let sql = "SELECT (SELECT count(*) FROM entry), (SELECT count(*) FROM outbox),
                      (SELECT count(*) FROM record)";
    let row = session.query_one(sql, &[]).await.unwrap();
    [row.get(0), row.get(1), row.get(2)]
}

#[tokio::test]
async fn record_rows_and_event_are_one_commit() {
    let (inbox, session) = bank("inbox_one").await;
    assert_eq!(deliver(&inbox, &message("e"), || Ok(())).await, Handled::Done);
    assert_eq!(counts(&session).await, [1, 1, 1]);
    assert_eq!(deliver(&inbox, &message("e"), || Ok(())).await, Handled::Duplicate);
    assert_eq!(counts(&session).await, [1, 1, 1]);
    let one = "SELECT count(DISTINCT x) FROM (SELECT xmin::text x FROM entry
               UNION ALL SELECT xmin::text FROM outbox UNION ALL SELECT xmin::text FROM record) t";
    assert_eq!(session.query_one(one, &[]).await.unwrap().get::<_, i64>(0), 1);
}

#[tokio::test]
async fn a_failed_attempt_leaves_nothing_and_the_last_one_its_reason() {
    let (inbox, session) = bank("inbox_fails").await;
    let busy = || Err(std::io::Error::other("the ledger is busy").into());
    for deliveries in 1..3 {
        let message = message("e").deliveries(deliveries);
        let handled = deliver(&inbox, &message, busy).await;
        assert!(matches!(handled, Handled::Later(_)), "{handled:?}");
        assert_eq!(counts(&session).await, [0, 0, 0]);
    }
    let dead = Handled::Dead("the ledger is busy (attempt 3, the last)".to_owned());
    assert_eq!(deliver(&inbox, &message("e").deliveries(3), busy).await, dead);
    assert_eq!(deliver(&inbox, &message("e").deliveries(4), || Ok(())).await, dead);
    assert_eq!(counts(&session).await, [0, 0, 1], "only the reason is kept");
}

/// In a transaction nothing is unknown: it was rolled back.
#[tokio::test]
async fn an_unknown_outcome_is_rolled_back_and_comes_again() {
    let (inbox, session) = bank("inbox_unknown").await;
    let unknown = || Err(Failure::Unknown("no answer".to_owned()));
    let handled = deliver(&inbox, &message("e"), unknown).await;
    assert!(matches!(handled, Handled::Later(_)), "{handled:?}");
    assert_eq!(counts(&session).await, [0, 0, 0]);
    assert_eq!(deliver(&inbox, &message("e"), || Ok(())).await, Handled::Done);
}

#[tokio::test]
async fn another_payload_under_a_used_id_is_dead() {
    let (inbox, session) = bank("inbox_payload").await;
    deliver(&inbox, &message("e"), || Ok(())).await;
    let other = Message::new(EventId::parse("e").unwrap(), "999");
    let handled = deliver(&inbox, &other, || Ok(())).await;
    assert!(matches!(&handled, Handled::Dead(reason) if reason.contains("payload")), "{handled:?}");
    assert_eq!(counts(&session).await, [1, 1, 1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_deliveries_at_once_have_one_effect() {
    let (inbox, session) = bank("inbox_many").await;
    let mut deliveries = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let inbox = inbox.clone();
        deliveries.spawn(async move { deliver(&inbox, &message("e"), || Ok(())).await });
    }
    let handled = deliveries.join_all().await;
    assert_eq!(handled.iter().filter(|it| **it == Handled::Done).count(), 1, "{handled:?}");
    assert!(handled.iter().all(|it| !matches!(it, Handled::Dead(_) | Handled::Unknown)));
    assert_eq!(counts(&session).await, [1, 1, 1]);
}
