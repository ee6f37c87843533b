//! The choice of a connection for each verb.

mod support;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Reply, Settlement};
use semel_postgres::{PostgresStore, migrate};
use semel_store::Store;
use semel_testserver::Postgres;

use support::options;

async fn claim(store: &PostgresStore, number: u8, owner: u128) -> Claim {
    let id = RecordId::from_bytes([number; 32]);
    let attempt = Attempt::new(id, Fingerprint::new([("body", "x")]), Owner::from_u128(owner));
    store.claim(&attempt, &Policy::default()).await.expect("an answer")
}

fn sessions(server: &Postgres) -> String {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'semel'";
    server.psql(sql).expect("a number").trim().to_owned()
}

/// Four replays at a time go behind each other on one connection; four claims that write do not.
#[tokio::test(flavor = "multi_thread")]
async fn replays_share_a_connection_and_writes_are_spread() {
    let server = Postgres::start().expect("a server");
    migrate(&options(&server.url())).await.expect("a schema");
    let store = options(&server.url()).open().await.expect("a store");
    let Claim::Execute(lease) = claim(&store, 0, 1).await else { panic!("no lease") };
    store.settle(&lease, Settlement::Completed(Reply::new("done"))).await.expect("a settle");
    // Long enough for the ratio of writes to fall.
    for _ in 0..1_000 {
        assert!(matches!(claim(&store, 0, 2).await, Claim::Replay { .. }));
    }
    for _ in 0..200 {
        let replays = [3, 4, 5, 6].map(|owner| claim(&store, 0, owner));
        let [one, two, three, four] = replays;
        tokio::join!(one, two, three, four);
    }
    assert_eq!(sessions(&server), "1", "connections for replays");
    for round in 1..60 {
        let claims = [0, 60, 120, 180].map(|start| claim(&store, start + round, 7));
        let [one, two, three, four] = claims;
        tokio::join!(one, two, three, four);
    }
    assert_ne!(sessions(&server), "1", "connections for writes");
}
