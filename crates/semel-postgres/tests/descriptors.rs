//! A process without file descriptors makes no statement about its servers. Regression: the breaker
//! counted the process's own shortage as an outage of the store, and would have let everything through on
//! routes that fail open.
//!
//! One test: it takes the descriptors of the whole process.

use semel_postgres::{OpenError, Options};
use semel_store::StoreError;
use semel_testserver::NoDescriptors;

#[tokio::test]
async fn a_process_without_descriptors_says_nothing_about_its_servers() {
    let none = NoDescriptors::begin();
    for address in [
        "postgres://u:p@127.0.0.1:1/d",
        "postgres://u:p@localhost:1/d",
        "postgres://u:p@127.0.0.1:1,127.0.0.1:2/d",
        "postgres://u:p@%2Fnowhere/d",
    ] {
        let opened = Options::from_url(address).expect("an address").open().await;
        let error = opened.map(drop).expect_err("nothing can be opened");
        assert!(matches!(error, OpenError::Exhausted { .. }), "{address}: {error:?}");
        let error = StoreError::from(error);
        assert!(error.is_local() && !error.is_outage(), "{address}: {error:?}");
    }
    drop(none);
    let opened =
        Options::from_url("postgres://u:p@127.0.0.1:1/d").expect("an address").open().await;
    let error = StoreError::from(opened.map(drop).expect_err("no server there"));
    assert!(error.is_outage(), "{error:?}");
}
