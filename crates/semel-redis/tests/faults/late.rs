//! Connections with overdue replies: reset, so that the kernel stops sending commands that were given up.

use std::io::ErrorKind;
use std::time::Duration;

use semel_redis::Options;
use semel_store::StoreError;
use semel_testserver::Redis;

use crate::relay::Relay;
use crate::waiting::eventually_async;
use crate::{claim, lease, options};

const RESET: Option<ErrorKind> = Some(ErrorKind::ConnectionReset);

/// A claim without a reply, and the end of its connection.
async fn claim_in_vain(options: Options, relay: &Relay) {
    let store = options.verb_timeout(Duration::from_secs(1)).open().await.expect("a store");
    let _lease = lease(&store, 1).await;
    relay.answers(false);
    let error = claim(&store, 2, 1).await.expect_err("no answer");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    // By itself: no other verb comes that would have to replace it.
    eventually_async("it is reset", async || relay.ends().contains(&RESET)).await;
    relay.answers(true);
    eventually_async("another is made", async || claim(&store, 3, 1).await.is_ok()).await;
}

#[tokio::test]
async fn a_connection_with_an_overdue_answer_is_reset() {
    let server = Redis::start().expect("a server");
    let relay = Relay::to(server.port(), None).await;
    claim_in_vain(options(&format!("redis://127.0.0.1:{}", relay.port())), &relay).await;
}

/// Verbs that wait for replicas have connections of their own.
#[tokio::test]
async fn a_connection_that_waits_for_replicas_is_reset() {
    let server = Redis::start().expect("a server");
    let _replica = crate::replica_of(&server);
    let relay = Relay::to(server.port(), None).await;
    let options = options(&format!("redis://127.0.0.1:{}", relay.port())).wait_replicas(1);
    claim_in_vain(options, &relay).await;
}

/// In a module of this name, so that builds of Redis without TLS can skip it.
#[cfg(feature = "tls")]
mod tls {
    use super::*;

    #[tokio::test]
    async fn a_connection_is_reset() {
        let server = Redis::options().tls().start().expect("a server with TLS");
        let relay = Relay::to(server.port(), None).await;
        let certificate = server.certificate().expect("a certificate").display().to_string();
        let url = server.url().replace(&server.port().to_string(), &relay.port().to_string());
        let url = format!("{url}?sslrootcert={certificate}");
        claim_in_vain(options(&url), &relay).await;
    }
}

#[tokio::test]
async fn a_connection_without_debts_is_closed_in_good_order() {
    let server = Redis::start().expect("a server");
    let relay = Relay::to(server.port(), None).await;
    let store = options(&format!("redis://127.0.0.1:{}", relay.port())).open().await;
    let store = store.expect("a store");
    let _lease = lease(&store, 1).await;
    drop(store);
    eventually_async("it is closed", async || !relay.ends().is_empty()).await;
    assert!(relay.ends().iter().all(Option::is_none), "{:?}", relay.ends());
}
