//! The last version counts, in whatever order and however often it comes.

use crate::database::{Database, number};
use patterns::upsert::{Set, Stock, set};
use rand::seq::SliceRandom as _;

fn stock(version: i64) -> Stock {
    Stock { article: "lamp".into(), quantity: 100 - version, version }
}

#[tokio::test]
async fn the_same_again_changes_nothing() {
    let client = Database::make().await.session().await;
    assert_eq!(set(&client, &stock(1)).await.unwrap(), Set::Applied);
    assert_eq!(set(&client, &stock(1)).await.unwrap(), Set::Outdated);
    assert_eq!(number(&client, "SELECT quantity FROM stock").await, 99);
}

#[tokio::test]
async fn a_late_update_does_not_undo_a_newer_one() {
    let client = Database::make().await.session().await;
    assert_eq!(set(&client, &stock(2)).await.unwrap(), Set::Applied);
    assert_eq!(set(&client, &stock(1)).await.unwrap(), Set::Outdated);
    assert_eq!(number(&client, "SELECT quantity FROM stock").await, 98);
}

#[tokio::test(flavor = "multi_thread")]
async fn any_order_of_any_number_of_copies_ends_alike() {
    let database = Database::make().await;
    let mut versions: Vec<i64> = (1..=30).chain(1..=30).chain(1..=30).collect();
    versions.shuffle(&mut rand::rng());
    let mut tasks = tokio::task::JoinSet::new();
    for some in versions.chunks(30) {
        let (client, some) = (database.session().await, some.to_vec());
        tasks.spawn(async move {
            for version in some {
                set(&client, &stock(version)).await.unwrap();
            }
        });
    }
    tasks.join_all().await;
    let client = database.session().await;
    assert_eq!(number(&client, "SELECT version FROM stock").await, 30);
    assert_eq!(number(&client, "SELECT quantity FROM stock").await, 70);
}

/// The mistake: to say how things change. A message that comes twice changes them twice.
#[tokio::test]
async fn a_difference_counts_twice() {
    let client = Database::make().await.session().await;
    let sold_one = "INSERT INTO stock VALUES ('lamp', 99, 1)
                    ON CONFLICT (article) DO UPDATE SET quantity = stock.quantity - 1";
    for _ in 0..2 {
        client.batch_execute(sold_one).await.unwrap();
    }
    assert_eq!(number(&client, "SELECT quantity FROM stock").await, 98);
}
