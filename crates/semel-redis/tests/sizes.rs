//! How large the future of a verb is. Room is made for it, and it is moved, with every request.

use semel_core::{Attempt, Fingerprint, Owner, Policy, RecordId};
use semel_redis::Options;
use semel_store::Store as _;
use semel_testserver::Redis;

/// The story: what happens after a failure was part of every verb, and made it ten times as large.
#[tokio::test]
async fn what_is_rare_does_not_make_verbs_large() {
    let server = Redis::start().expect("a server");
    let store = Options::from_url(&server.url()).expect("an address").open().await;
    let store = store.expect("a store");
    let (id, fingerprint) = (RecordId::from_bytes([7; 32]), Fingerprint::from_bytes([7; 32]));
    let attempt = Attempt::new(id, fingerprint, Owner::from_u128(7));
    let claim = size_of_val(&*store.claim(&attempt, &Policy::default()));
    // What is larger is not kept at hand by common allocators.
    assert!(claim <= 1_024, "{claim} bytes");
}
