//! The table over time: settles stay in their page, and sweeps do not block other work.

mod support;

use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Reply, Settlement};
use semel_postgres::{PostgresStore, migrate};
use semel_store::{Store, Swept};
use tokio::task::JoinSet;

use support::{connect, fresh_url, options, schema_of};

fn attempt(number: u64) -> Attempt {
    let mut bytes = [0; 32];
    // Spread like the hashes that ids are.
    bytes[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    let owner = Owner::from_u128(rand::random());
    Attempt::new(RecordId::from_bytes(bytes), Fingerprint::new([("body", "x")]), owner)
}

async fn settle(store: &PostgresStore, number: u64, policy: &Policy) {
    let claim = store.claim(&attempt(number), policy).await.expect("a claim");
    let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
    let settlement = Settlement::Completed(Reply::new(vec![7; 300]));
    store.settle(&lease, settlement).await.expect("a settle");
}

/// Records whose time is over when this returns.
async fn expired(store: &PostgresStore, numbers: std::ops::Range<u64>) {
    let builder = Policy::builder().lease(Duration::from_millis(10));
    let policy = builder.ttl(Duration::from_millis(11)).build().expect("a policy");
    let last = attempt(numbers.end - 1).id();
    for number in numbers {
        let claim = store.claim(&attempt(number), &policy).await.expect("a claim");
        assert!(matches!(claim, Claim::Execute(_)), "{claim:?}");
    }
    while store.inspect(last).await.expect("a look").is_some() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn store_at(url: &str) -> PostgresStore {
    migrate(&options(url)).await.expect("a schema");
    options(url).open().await.expect("a store")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settle_stays_in_its_page() {
    let url = fresh_url();
    let store = store_at(&url).await;
    let mut clients = JoinSet::new();
    for client in 0..64 {
        let store = store.clone();
        clients.spawn(async move {
            for number in 0..20 {
                settle(&store, client * 20 + number, &Policy::default()).await;
            }
        });
    }
    clients.join_all().await;
    // The server's sessions report when they end, or after a while.
    drop(store);
    let sql = format!(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables
         WHERE schemaname = '{}' AND relname = 'record'",
        schema_of(&url)
    );
    let session = connect(&url).await;
    let (updates, in_page) = loop {
        let row = session.query_one(&sql, &[]).await.expect("the table's figures");
        let (updates, in_page): (i64, i64) = (row.get(0), row.get(1));
        if updates == 64 * 20 {
            break (updates, in_page);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    assert!(in_page * 100 >= updates * 90, "{in_page} of {updates}");
}

/// One node sweeps at a time; the others skip.
#[tokio::test]
async fn two_nodes_do_not_sweep_at_once() {
    let url = fresh_url();
    let store = store_at(&url).await;
    expired(&store, 0..10).await;
    let other = connect(&url).await;
    let sweep = format!("BEGIN; SELECT {}.sweep(5)", schema_of(&url));
    other.batch_execute(&sweep).await.expect("another node sweeps");
    assert_eq!(store.sweep(100).await.unwrap(), Swept { deleted: 0, more: false });
    other.batch_execute("COMMIT").await.expect("it is done");
    assert_eq!(store.sweep(100).await.unwrap(), Swept { deleted: 5, more: false });
}

/// A locked record is left for the next sweep, and claims go on during one.
#[tokio::test]
async fn a_sweep_neither_waits_nor_blocks() {
    let url = fresh_url();
    let store = store_at(&url).await;
    expired(&store, 0..10).await;
    let other = connect(&url).await;
    let schema = schema_of(&url);
    let id = attempt(3).id();
    let lock = format!("SELECT 1 FROM {schema}.record WHERE id = $1 FOR UPDATE");
    other.batch_execute("BEGIN").await.unwrap();
    other.query_one(&lock, &[&id.as_bytes().as_slice()]).await.expect("a lock");
    assert_eq!(store.sweep(100).await.unwrap(), Swept { deleted: 9, more: false });
    other.batch_execute("COMMIT").await.unwrap();

    expired(&store, 10..20).await;
    other.batch_execute(&format!("BEGIN; SELECT {schema}.sweep(100)")).await.expect("a sweep");
    for number in 20..30 {
        settle(&store, number, &Policy::default()).await;
    }
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(store.sweep(100).await.unwrap(), Swept { deleted: 0, more: false });
    settle(&store, 30, &Policy::default()).await;
}

/// Expired records go by themselves, with several nodes at it.
#[tokio::test]
async fn every_node_sweeps_in_the_background() {
    let url = fresh_url();
    let store = store_at(&url).await;
    settle(&store, 1_000, &Policy::default()).await;
    expired(&store, 0..50).await;
    let often = Some(Duration::from_millis(20));
    let mut nodes = Vec::new();
    for _ in 0..3 {
        nodes.push(options(&url).sweep_every(often).open().await.expect("a node"));
    }
    let count = format!("SELECT count(*) FROM {}.record", schema_of(&url));
    let session = connect(&url).await;
    loop {
        let left: i64 = session.query_one(&count, &[]).await.expect("a number").get(0);
        if left == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let claim = store.claim(&attempt(1_000), &Policy::default()).await.expect("a claim");
    assert!(matches!(claim, Claim::Replay { .. }), "{claim:?}");
}

/// People see records, and no bytes of replies, through the view.
#[tokio::test]
async fn the_view_shows_records_to_people() {
    let url = fresh_url();
    let store = store_at(&url).await;
    settle(&store, 7, &Policy::default()).await;
    let sql = format!(
        "SELECT id, state, attempts, reply_bytes, expires > created, leased_until IS NULL
         FROM {}.records",
        schema_of(&url)
    );
    let row = connect(&url).await.query_one(&sql, &[]).await.expect("a record");
    assert_eq!(row.get::<_, &str>(0), attempt(7).id().to_string());
    assert_eq!(row.get::<_, &str>(1), "completed");
    assert_eq!((row.get::<_, i64>(2), row.get::<_, i32>(3)), (1, 300));
    assert!(row.get::<_, bool>(4) && row.get::<_, bool>(5));
}
