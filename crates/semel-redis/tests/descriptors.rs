//! A process without file descriptors makes no statement about its servers. Regression: the breaker
//! counted the process's own shortage as an outage of the store, and would have let everything through on
//! routes that fail open.
//!
//! One test: it takes the descriptors of the whole process.

use semel_redis::{OpenError, Options};
use semel_store::StoreError;
use semel_testserver::NoDescriptors;

#[tokio::test]
async fn a_process_without_descriptors_says_nothing_about_its_servers() {
    let none = NoDescriptors::begin();
    for address in [
        "redis://127.0.0.1:1",
        "redis://localhost:1",
        "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main",
        "redis+cluster://127.0.0.1:1,localhost:2",
        "unix:///nowhere/redis.sock",
    ] {
        let opened = Options::from_url(address).expect("an address").open().await;
        let error = opened.map(drop).expect_err("nothing can be opened");
        assert!(matches!(error, OpenError::Exhausted { .. }), "{address}: {error:?}");
        let error = StoreError::from(error);
        assert!(error.is_local() && !error.is_outage(), "{address}: {error:?}");
    }
    drop(none);
    let opened = Options::from_url("redis://127.0.0.1:1").expect("an address").open().await;
    let error = StoreError::from(opened.map(drop).expect_err("no server there"));
    assert!(error.is_outage(), "{error:?}");
}
