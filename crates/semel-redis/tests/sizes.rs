//! The size of a verb's future. It is allocated and moved with every request.

use semel_core::{Attempt, Fingerprint, Owner, Policy, RecordId};
use semel_redis::Options;
use semel_store::Store as _;
use semel_testserver::Redis;

/// Regression: the code after a failure was part of every verb's future, and made it ten times as large.
#[tokio::test]
async fn rare_paths_do_not_make_the_futures_of_verbs_large() {
    let server = Redis::start().expect("a server");
    let store = Options::from_url(&server.url()).expect("an address").open().await;
    let store = store.expect("a store");
    let (id, fingerprint) = (RecordId::from_bytes([7; 32]), Fingerprint::from_bytes([7; 32]));
    let attempt = Attempt::new(id, fingerprint, Owner::from_u128(7));
    let claim = size_of_val(&*store.claim(&attempt, &Policy::default()));
    // Common allocators do not cache larger allocations.
    assert!(claim <= 1_024, "{claim} bytes");
}
