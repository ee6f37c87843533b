//! The table of events, the function that stages them, and the upgrade from the table before.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod support;

use semel_postgres::{Migrated, migrate};
use tokio_postgres::Client;

use support::{connect, fresh_url, options, schema_of};

/// A session in a schema of its own.
async fn session() -> (Client, String) {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    (in_schema(&url).await, url)
}

async fn in_schema(url: &str) -> Client {
    let session = connect(url).await;
    session.batch_execute(&format!("SET search_path = {}", schema_of(url))).await.unwrap();
    session
}

/// What a query of one row and one column returns, as a text.
async fn ask(session: &Client, sql: &str) -> Option<String> {
    session.query_one(sql, &[]).await.unwrap().get(0)
}

/// The message and the hint of the server.
async fn refusal(session: &Client, sql: &str) -> (String, String) {
    let error = session.batch_execute(sql).await.expect_err("it was accepted");
    let error = error.as_db_error().unwrap();
    (error.message().to_owned(), error.hint().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn stage_fills_what_is_left_out() {
    let (session, _) = session().await;
    let id = ask(&session, "SELECT stage('orders.placed', 'order-7', '\\x00ff')::text").await;
    let row =
        "SELECT (event, topic, key, type, headers, payload, record, not_before)::text FROM outbox";
    let id = id.unwrap();
    let expected = format!(r#"({id},orders.placed,order-7,orders.placed,{{}},"\\x00ff",,)"#);
    assert_eq!(ask(&session, row).await, Some(expected));
    let recent = "SELECT (occurred BETWEEN now() - interval '1 min' AND clock_timestamp())::text FROM outbox";
    assert_eq!(ask(&session, recent).await.as_deref(), Some("true"));
}

#[tokio::test]
async fn stage_takes_names_and_all_that_it_has_parameters_for() {
    let (session, _) = session().await;
    let sql = r#"SELECT stage(topic => 'orders', key => NULL, payload => 'x', type => 'order.placed',
        headers => '{"traceparent": "00-1"}', not_before => '2030-01-01T00:00:00Z',
        event => '0190a6bd-0000-7000-8000-000000000001')::text"#;
    let id = "0190a6bd-0000-7000-8000-000000000001";
    assert_eq!(ask(&session, sql).await.as_deref(), Some(id));
    let row = "SELECT concat_ws('|', type, headers, extract(epoch FROM not_before)::bigint, key) FROM outbox";
    let expected = r#"order.placed|{"traceparent": "00-1"}|1893456000"#;
    assert_eq!(ask(&session, row).await.as_deref(), Some(expected));
}

#[tokio::test]
async fn a_staged_event_is_rolled_back_with_its_transaction() {
    let (session, _) = session().await;
    for (end, count) in [("ROLLBACK", "0"), ("COMMIT", "1")] {
        let sql = format!("BEGIN; SELECT stage('t', 'k', 'p'); {end}");
        session.batch_execute(&sql).await.unwrap();
        assert_eq!(
            ask(&session, "SELECT count(*)::text FROM outbox").await.as_deref(),
            Some(count)
        );
    }
}

#[tokio::test]
async fn an_event_that_could_not_be_published_is_refused_with_a_cure() {
    let (session, _) = session().await;
    for topic in ["''", "NULL", "'two words'", "E'tab\\t'", "repeat('x', 256)"] {
        let (message, hint) = refusal(&session, &format!("SELECT stage({topic}, 'k', 'p')")).await;
        assert!(message.contains("topic") && hint.contains("orders.placed"), "{message} {hint}");
    }
    for headers in ["[]", "{\"a\": 1}", "{\"a\": null}"] {
        let sql = format!("SELECT stage('t', 'k', 'p', '{headers}')");
        let (message, hint) = refusal(&session, &sql).await;
        assert!(message.contains("headers") && hint.contains("texts"), "{message} {hint}");
    }
    assert_eq!(ask(&session, "SELECT count(*)::text FROM outbox").await.as_deref(), Some("0"));
}

/// All events of a key are one relay's business, and many keys are spread over many relays.
#[tokio::test]
async fn a_key_has_one_slot_and_keys_have_many() {
    let (session, _) = session().await;
    let stage = "SELECT stage('t', 'key-' || n % 500, 'p') FROM generate_series(1, 2000) n;
                 SELECT stage('t', NULL, 'p') FROM generate_series(1, 2000)";
    session.batch_execute(stage).await.unwrap();
    let most = "SELECT max(slots)::text FROM
                (SELECT count(DISTINCT slot) slots FROM outbox WHERE key IS NOT NULL GROUP BY key) s";
    assert_eq!(ask(&session, most).await.as_deref(), Some("1"));
    for filter in ["key IS NULL", "key IS NOT NULL"] {
        let slots = format!(
            "SELECT concat(min(slot), ' ', max(slot), ' ', count(DISTINCT slot)) FROM outbox WHERE {filter}"
        );
        assert_eq!(ask(&session, &slots).await.as_deref(), Some("0 63 64"));
    }
}

/// Brings a schema back to the version before the outbox had slots.
const BACK: &str = "
    DROP FUNCTION stage, check_event;
    DO $$ DECLARE f regprocedure; BEGIN
        SELECT oid INTO f FROM pg_proc WHERE proname = 'settle_in_transaction' AND pronargs = 17
               AND pronamespace = current_schema()::regnamespace;
        EXECUTE 'DROP FUNCTION ' || f;
    END $$;
    ALTER TABLE outbox DROP CONSTRAINT outbox_pkey, DROP COLUMN slot, DROP COLUMN type,
                       DROP COLUMN not_before, ALTER COLUMN record SET NOT NULL,
                       ALTER COLUMN headers DROP DEFAULT, ADD PRIMARY KEY (seq);
    ALTER TABLE outbox RENAME COLUMN occurred TO created;
    DELETE FROM migration WHERE version > 3";

/// What a node of the version before sends.
const OLD_INSERT: &str = "INSERT INTO outbox (event, topic, key, headers, payload, record)
    SELECT gen_random_uuid(), 'topic-' || n, CASE WHEN n % 2 = 0 THEN 'key-' || n END,
           '{\"a\": \"1\"}', convert_to('payload-' || n, 'UTF8'), '\\x07'
    FROM generate_series(1, 100) n";

#[tokio::test]
async fn an_upgrade_loses_no_event_and_lets_older_nodes_go_on() {
    let (session, url) = session().await;
    session.batch_execute(BACK).await.expect("an older schema");
    session.batch_execute(OLD_INSERT).await.expect("events");
    let events = |time: &str| {
        format!("SELECT string_agg((seq, event, topic, key, headers, payload, record, {time})::text, ';' ORDER BY seq)
                 FROM outbox")
    };
    let before = ask(&session, &events("created")).await;
    let migrated = migrate(&options(&url)).await.expect("an upgrade");
    assert_eq!(migrated.from, 3);
    assert!(before.as_ref().is_some_and(|before| before.contains("topic-100")));
    assert_eq!(ask(&session, &events("occurred")).await, before);
    let typed = "SELECT count(*)::text FROM outbox WHERE type = topic";
    assert_eq!(ask(&session, typed).await.as_deref(), Some("100"));
    session.batch_execute(OLD_INSERT).await.expect("an older node goes on");
    let rows = "SELECT count(*)::text FROM outbox WHERE coalesce(type, topic) = topic";
    assert_eq!(ask(&session, rows).await.as_deref(), Some("200"));
    assert_eq!(
        migrate(&options(&url)).await.unwrap(),
        Migrated { from: migrated.to, to: migrated.to }
    );
}
