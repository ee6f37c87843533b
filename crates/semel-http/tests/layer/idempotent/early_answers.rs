//! Answers that need no handler: the next request on the connection must never be parsed out of an
//! unread body.

use http::{Request, Version};
use semel_http::{OnMissingScope, RoutePolicyBuilder};

use super::Api;
use crate::support::{Reply, Step, TestBody, With, charge, keyless, policy};

const VERSIONS: [(Version, Option<&str>); 3] =
    [(Version::HTTP_10, Some("close")), (Version::HTTP_11, Some("close")), (Version::HTTP_2, None)];

fn small() -> RoutePolicyBuilder {
    policy().max_request_body(100).on_missing_scope(OnMissingScope::Reject)
}

/// Three requests that are refused before their body matters.
fn refused(body: impl Fn() -> TestBody) -> [Request<TestBody>; 3] {
    [keyless("POST", "/charges", body()), charge("two words", body()), charge("k", body())]
}

async fn answer(request: Request<TestBody>) -> Reply {
    let api = Api::counting(small());
    let reply = api.send(request).await;
    assert!((400..=413).contains(&reply.status), "{reply:?}");
    assert_eq!(api.runs(), 0);
    reply
}

#[tokio::test]
async fn a_short_body_is_read_to_its_end() {
    for request in refused(|| TestBody::pieces(4, 25)) {
        let watch = request.body().watch();
        let reply = answer(request).await;
        assert!(watch.ended() && watch.bytes() == 100);
        assert_eq!(reply.header("connection"), None);
    }
}

#[tokio::test]
async fn a_long_body_is_left_and_the_connection_closed() {
    for (version, connection) in VERSIONS {
        for mut request in refused(|| TestBody::pieces(50, 30)) {
            *request.version_mut() = version;
            let watch = request.body().watch();
            let reply = answer(request).await;
            assert_eq!((watch.ended(), watch.bytes()), (false, 120));
            assert_eq!(reply.header("connection"), connection, "{version:?}");
        }
        let mut request = charge("k", TestBody::pieces(2, 100)).with("authorization", "a");
        *request.version_mut() = version;
        let reply = answer(request).await;
        assert_eq!((reply.status, reply.header("connection")), (413, connection), "{version:?}");
    }
}

#[tokio::test]
async fn a_refused_expect_request_gets_no_100_continue() {
    for request in refused(|| TestBody::from("100")) {
        let request = request.with("expect", "100-continue");
        let watch = request.body().watch();
        let reply = answer(request).await;
        assert_eq!((watch.polls(), reply.header("connection")), (0, Some("close")));
    }
}

#[tokio::test]
async fn replays_and_refusals_after_the_body_keep_the_connection() {
    let api = Api::counting(policy());
    for (body, status) in [("100", 201), ("100", 201), ("200", 409)] {
        let request = charge("k", TestBody::of([Step::data(body), Step::Yield]));
        let watch = request.body().watch();
        let reply = api.send(request.with("expect", "100-continue")).await;
        assert_eq!((reply.status, reply.header("connection")), (status, None));
        assert!(watch.ended());
    }
}
