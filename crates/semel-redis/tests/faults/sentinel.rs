//! Sentinels.

use semel_core::Claim;
use semel_store::{Settled, Store as _};
use semel_testserver::Redis;

use crate::waiting::{eventually, eventually_async};
use crate::{claim, lease, open, options, paid, replica_of};

/// Sentinels promote a replica: the store finds the new master.
#[tokio::test(flavor = "multi_thread")]
async fn the_master_that_sentinels_name_is_followed() {
    let master = Redis::start().expect("a server");
    let replica = replica_of(&master);
    let sentinels: Vec<Redis> = (0..3)
        .map(|_| Redis::options().sentinel("main", master.port(), 2).start().expect("a sentinel"))
        .collect();
    for sentinel in &sentinels {
        eventually("sentinels know each other and the replica", || {
            let known = sentinel.cli(&["SENTINEL", "MASTER", "main"]).expect("facts");
            let lines: Vec<&str> = known.lines().collect();
            let fact = |name: &str| {
                lines
                    .iter()
                    .position(|line| *line == name)
                    .and_then(|at| lines.get(at + 1))
                    .copied()
            };
            fact("num-slaves") == Some("1") && fact("num-other-sentinels") == Some("2")
        });
    }
    let hosts: Vec<String> =
        sentinels.iter().map(|sentinel| format!("127.0.0.1:{}", sentinel.port())).collect();
    let store = &open(&format!("redis+sentinel://{}/main", hosts.join(","))).await;
    let held = lease(store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    eventually("the replica has it", || replica.cli(&["DBSIZE"]).expect("keys") == "1");
    master.kill().expect("a master to kill");
    eventually_async("the new master answers", async || {
        matches!(claim(store, 1, 2).await, Ok(Claim::Replay { .. }))
    })
    .await;
    let second = lease(store, 2).await;
    assert_eq!(store.settle(&second, paid()).await.expect("an answer"), Settled::Recorded);

    let unknown = options(&format!("redis+sentinel://{}/other", hosts.join(",")));
    let error = unknown.open().await.map(drop).expect_err("no such master");
    assert!(error.to_string().contains("know no master other"), "{error}");
}
