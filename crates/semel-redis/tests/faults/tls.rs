//! TLS and trust.

use semel_redis::OpenError;
use semel_store::{Settled, Store as _};
use semel_testserver::Redis;

use crate::notifications::{notified, watch};
use crate::{assert_replayed, lease, open, options, paid};

#[tokio::test]
async fn a_server_is_trusted_if_its_authority_is() {
    let server = Redis::options().tls().start().expect("a server with TLS");
    let certificate = server.certificate().expect("a certificate").display().to_string();
    let store = open(&format!("{}?sslrootcert={certificate}", server.url())).await;
    let held = lease(&store, 1).await;
    assert_eq!(store.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    assert_replayed(&store, 1).await;
    let error =
        options(&server.url()).open().await.map(drop).expect_err("its authority is unknown");
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
}

#[tokio::test]
async fn notifications_work_over_tls() {
    let server = Redis::options().tls().start().expect("a server with TLS");
    let certificate = server.certificate().expect("a certificate").display().to_string();
    let url = format!("{}?sslrootcert={certificate}", server.url());
    let (one, other) = (open(&url).await, open(&url).await);
    let held = lease(&one, 1).await;
    let mut watch = watch(&other, 1).await;
    assert_eq!(one.settle(&held, paid()).await.expect("an answer"), Settled::Recorded);
    notified(&mut watch).await;
    assert!(watch.is_listening());
}

/// An address with TLS never falls back to plain text.
#[tokio::test]
async fn a_server_without_tls_is_refused() {
    let server = Redis::start().expect("a server");
    let url = server.url().replace("redis:", "rediss:");
    let error = options(&url).open().await.map(drop).expect_err("no TLS");
    assert!(matches!(error, OpenError::Tls { .. } | OpenError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_file_that_is_not_there_is_named() {
    let error = options("rediss://h?sslrootcert=/nowhere/ca.pem").open().await.map(drop);
    let error = error.expect_err("no file");
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
    assert!(error.to_string().contains("/nowhere/ca.pem"), "{error}");
}
