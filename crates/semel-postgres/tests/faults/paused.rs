//! Paused servers and sessions.

use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Lease, Owner, Policy, RecordId, Refusal, Reply, Settlement, State,
};
use semel_postgres::{PostgresStore, migrate};
use semel_store::{Settled, Store};
use semel_testserver::Postgres;

use crate::load::is_unsure;
use crate::support::options;

fn attempt(owner: u128) -> Attempt {
    let id = RecordId::from_bytes([7; 32]);
    Attempt::new(id, Fingerprint::new([("body", "x")]), Owner::from_u128(owner))
}

async fn lease(store: &PostgresStore, owner: u128, policy: &Policy) -> Lease {
    // It may have to be waited for: until the lease of another has run out.
    for _ in 0..3_000 {
        match store.claim(&attempt(owner), policy).await.expect("a claim") {
            Claim::Execute(lease) => return lease,
            Claim::InFlight { .. } => tokio::time::sleep(Duration::from_millis(10)).await,
            other => panic!("{other:?}"),
        }
    }
    panic!("the lease of another never ran out");
}

fn outcome(text: &'static str) -> Settlement {
    Settlement::Completed(Reply::new(text))
}

/// The session of a holder is paused with its settle in transit, for longer than the lease. Another owner
/// takes over. When the session resumes, the late settle reaches the record, and the fence refuses it
/// (trap 1).
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_paused_past_the_lease() {
    let server = Postgres::start().expect("a server");
    let url = server.url();
    migrate(&options(&url)).await.expect("a schema");
    let slow_url = format!("{url}?application_name=slow&pool_max=1");
    let slow =
        options(&slow_url).verb_timeout(Duration::from_secs(1)).open().await.expect("a store");
    let fast = options(&url).open().await.expect("a store");
    let policy = Policy::builder().lease(Duration::from_millis(500)).build().expect("a policy");

    let late = lease(&slow, 1, &policy).await;
    let pid = "SELECT pid FROM pg_stat_activity WHERE application_name = 'slow'";
    let pid: i32 = server.psql(pid).expect("a session").trim().parse().expect("one session");
    server.pause_process(pid).expect("it pauses");
    // Sent, and never answered.
    let settled = slow.settle(&late, outcome("late")).await;
    assert!(is_unsure(&settled), "{settled:?}");

    let successor = lease(&fast, 2, &policy).await;
    assert_eq!(successor.fence().get(), 2);
    server.resume_process(pid).expect("it goes on");
    // Wait until the paused session has executed it, or has found its client gone.
    let behind = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE pid = {pid} AND (query LIKE '%.claim(%' OR state <> 'idle')"
    );
    while server.psql(&behind).expect("an answer").trim() != "0" {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(fast.inspect(late.id()).await.expect("a look").is_some_and(|record| {
        matches!(record.state, State::Leased { .. }) && record.fence == successor.fence()
    }));
    let settled = fast.settle(&successor, outcome("successor")).await.expect("an answer");
    assert_eq!(settled, Settled::Recorded);
    // The late holder repeats its settle and gets the outcome that counts (I4).
    let settled = slow.settle(&late, outcome("late")).await.expect("an answer");
    let Settled::Refused(Refusal::Settled { settlement, .. }) = settled else {
        panic!("{settled:?}");
    };
    assert_eq!(settlement, outcome("successor"));
}

/// The sessions of a store, as the server knows them.
fn sessions(server: &Postgres, name: &str) -> Vec<i32> {
    let sql = format!("SELECT pid FROM pg_stat_activity WHERE application_name = '{name}'");
    let rows = server.psql(&sql).expect("sessions");
    rows.split_whitespace().map(|pid| pid.parse().expect("a number")).collect()
}

/// One paused session: verbs on it time out, it is closed, and another takes its place.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_stands_still_is_replaced() {
    let server = Postgres::start().expect("a server");
    migrate(&options(&server.url())).await.expect("a schema");
    let url = format!("{}?application_name=one&pool_max=1", server.url());
    let store =
        options(&url).verb_timeout(Duration::from_millis(300)).open().await.expect("a store");
    let [paused] = sessions(&server, "one")[..] else { panic!("not one session") };
    server.pause_process(paused).expect("it pauses");
    let unanswered = store.health().await;
    assert!(unanswered.is_err_and(|error| error.is_passing()));
    eventually(async || store.health().await.is_ok()).await;
    assert!(sessions(&server, "one").iter().any(|pid| *pid != paused), "the same session");
    server.resume_process(paused).expect("it goes on");
}

/// One caller times out while the session is fine: other verbs on it get their answers, and it is kept.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_kept_when_one_caller_gives_up() {
    let server = Postgres::start().expect("a server");
    let url = server.url();
    migrate(&options(&url)).await.expect("a schema");
    let store = options(&format!("{url}?application_name=one&pool_max=1"));
    let store = store.verb_timeout(Duration::from_secs(20)).open().await.expect("a store");
    let before = sessions(&server, "one");
    let holder = crate::support::connect(&url).await;
    holder.batch_execute("BEGIN; LOCK TABLE semel.record").await.expect("a lock");
    let neighbour = tokio::spawn({
        let store = store.clone();
        async move { store.claim(&attempt(1), &Policy::default()).await }
    });
    let (second, policy) = (attempt(2), Policy::default());
    let impatient = store.claim(&second, &policy);
    let given_up = tokio::time::timeout(Duration::from_millis(100), impatient).await;
    assert!(given_up.is_err(), "it did not have to wait");
    holder.batch_execute("ROLLBACK").await.expect("no lock");
    let claim = neighbour.await.expect("no panic").expect("an answer");
    assert!(matches!(claim, Claim::Execute(_) | Claim::InFlight { .. }), "{claim:?}");
    store.health().await.expect("an answer");
    assert_eq!(sessions(&server, "one"), before);
}

async fn eventually(mut happens: impl AsyncFnMut() -> bool) {
    for _ in 0..3_000 {
        if happens().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it never happened");
}

/// The whole server stops answering: verbs end in time, and when it goes on, so does the store, on
/// the same or on new connections.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_paused_and_resumed() {
    let server = Postgres::start().expect("a server");
    let url = server.url();
    migrate(&options(&url)).await.expect("a schema");
    let store =
        options(&url).verb_timeout(Duration::from_millis(300)).open().await.expect("a store");
    let lease = lease(&store, 1, &Policy::default()).await;
    for round in 0..3 {
        server.pause().expect("it pauses");
        let claim = store.claim(&attempt(2), &Policy::default()).await;
        assert!(claim.is_err_and(|error| error.is_passing()), "round {round}");
        // A call that is dropped earlier leaves no stale connection behind.
        let given_up = tokio::time::timeout(Duration::from_millis(20), store.health()).await;
        assert!(given_up.is_err() || given_up.is_ok_and(|health| health.is_err()));
        server.resume().expect("it goes on");
        let mut answers = 0;
        while answers == 0 {
            match store.claim(&attempt(2), &Policy::default()).await {
                Ok(claim) => {
                    assert!(matches!(claim, Claim::InFlight { .. }), "{claim:?}");
                    answers += 1;
                }
                Err(error) => assert!(error.is_passing(), "{error:?}"),
            }
        }
    }
    // It may be unsure once more, on a connection that was cut.
    let mut settled = store.settle(&lease, outcome("done")).await;
    while is_unsure(&settled) {
        settled = store.settle(&lease, outcome("done")).await;
    }
    assert_eq!(settled.expect("an answer"), Settled::Recorded);
}
