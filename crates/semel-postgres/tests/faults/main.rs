//! A real server that is killed, stopped, paused and cut off, under load: I1–I6 hold, and the store
//! recovers by itself.

#[path = "../support/mod.rs"]
mod support;

mod load;
mod paused;

use std::sync::Arc;
use std::time::Duration;

use semel_postgres::migrate;
use semel_store::Store;
use semel_testserver::Postgres;

use load::Load;
use support::options;

/// Ends all sessions of the store, wherever they are.
const TERMINATE: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
                         WHERE application_name = 'semel'";

/// Runs load against a server while `harm` is done to it, `times` times.
async fn under_load(times: usize, harm: impl Fn(&Postgres) + Send + 'static) -> load::Tally {
    let server = Postgres::start().expect("a server");
    migrate(&options(&server.url())).await.expect("a schema");
    let store =
        options(&server.url()).verb_timeout(Duration::from_secs(2)).open().await.expect("a store");
    let load = Arc::new(Load::new(store));
    let clients = load.start(16);
    let server = tokio::task::spawn_blocking({
        let load = load.clone();
        move || {
            for _ in 0..times {
                // Not before the last harm is overcome: each must meet the store at work.
                load.wait_for_progress();
                harm(&server);
            }
            load.wait_for_progress();
            server
        }
    })
    .await
    .expect("no harm to the test itself");
    load.stop();
    clients.join_all().await;
    let tally = load.check().await;
    drop(server);
    tally
}

/// The connection ends in the middle of verbs: their effect is unknown, and the records are consistent in
/// the end.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_terminated_in_mid_verb() {
    let tally = under_load(30, |server| {
        server.psql(TERMINATE).expect("sessions end");
    })
    .await;
    assert!(tally.unsure > 0, "no verb was met: {tally:?}");
}

/// The server crashes and recovers: all that was acknowledged is there.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_stopped_immediately_and_restarted() {
    let tally = under_load(5, |server| {
        server.stop_immediately().expect("it stops");
        server.start_again().expect("it starts");
    })
    .await;
    assert!(tally.unsure > 0 && tally.refused > 0, "{tally:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_killed_and_restarted() {
    let tally = under_load(3, |server| {
        server.kill().expect("it dies");
        server.start_again().expect("it starts");
    })
    .await;
    assert!(tally.unsure > 0, "{tally:?}");
}

/// The schema goes away under a running store: a clear error that names the command, and nothing
/// else to be done than to run it.
#[tokio::test]
async fn the_schema_is_dropped_and_made_anew() {
    let url = support::fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let store = options(&url).open().await.expect("a store");
    let schema = support::schema_of(&url);
    let session = support::connect(&url).await;
    session.batch_execute(&format!("DROP SCHEMA {schema} CASCADE")).await.expect("no schema");
    let error = store.health().await.expect_err("no schema");
    assert!(!error.is_passing() && error.to_string().contains("semel migrate"), "{error}");
    migrate(&options(&url)).await.expect("a schema");
    store.health().await.expect("it is back");
    // Not only the health: every verb was prepared for what is gone.
    let load = Arc::new(Load::new(store));
    let clients = load.start(4);
    tokio::task::spawn_blocking({
        let load = load.clone();
        move || (0..5).for_each(|_| load.wait_for_progress())
    })
    .await
    .expect("progress");
    load.stop();
    clients.join_all().await;
    load.check().await;
}
