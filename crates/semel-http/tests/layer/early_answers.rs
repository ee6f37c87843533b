//! Answers that need no execution: the next request on the connection must never be parsed out of
//! an unread body.

use std::time::Duration;

use http::{Request, Version};
use semel_http::{OnMissingScope, RoutePolicyBuilder};

use crate::support::{
    Api, BodyError, Handler, Reply, Step, TestBody, Verb, With, charge, keyless, policy,
};

const VERSIONS: [(Version, Option<&str>); 3] =
    [(Version::HTTP_10, Some("close")), (Version::HTTP_11, Some("close")), (Version::HTTP_2, None)];

fn small() -> RoutePolicyBuilder {
    policy().max_request_body(100).on_missing_scope(OnMissingScope::Reject)
}

/// Three requests that are refused before their body matters.
fn refused(body: impl Fn() -> TestBody) -> [Request<TestBody>; 3] {
    let missing = keyless("POST", "/charges", body());
    let invalid = charge("two words", body());
    let nobody = charge("k", body());
    [missing, invalid, nobody]
}

async fn answer(request: Request<TestBody>) -> Reply {
    let api = Api::new(small(), Handler::counting());
    let reply = api.send(request).await;
    assert!((400..=413).contains(&reply.status), "{reply:?}");
    assert_eq!((api.handler.runs(), api.store.calls(Verb::Claim)), (0, 0));
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
    }
}

#[tokio::test]
async fn a_body_that_declares_itself_long_is_not_begun() {
    for request in refused(|| TestBody::pieces(50, 30).declaring(1500)) {
        let watch = request.body().watch();
        let reply = answer(request).await;
        assert_eq!((watch.polls(), reply.header("connection")), (0, Some("close")));
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

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_or_breaks_closes_the_connection() {
    let bodies: [fn() -> TestBody; 2] = [
        || TestBody::of([Step::data("1"), Step::Stall]),
        || TestBody::of([Step::data("1"), Step::Fail(BodyError::Gone)]),
    ];
    for body in bodies {
        for request in refused(body) {
            let answered = tokio::time::timeout(Duration::from_mins(1), answer(request)).await;
            assert_eq!(answered.unwrap().header("connection"), Some("close"));
        }
    }
}

#[tokio::test]
async fn a_body_over_the_limit_closes_the_connection_but_not_that_of_http_2() {
    for (version, connection) in VERSIONS {
        let mut request = charge("k", TestBody::pieces(2, 100)).with("authorization", "a");
        *request.version_mut() = version;
        let reply = answer(request).await;
        assert_eq!((reply.status, reply.header("connection")), (413, connection), "{version:?}");
    }
}

#[tokio::test]
async fn replays_and_refusals_after_the_body_keep_the_connection() {
    let api = Api::new(policy(), Handler::counting());
    for (body, status) in [("100", 201), ("100", 201), ("200", 409)] {
        let steps = [Step::data(body), Step::Yield];
        let request = charge("k", TestBody::of(steps)).with("expect", "100-continue");
        let watch = request.body().watch();
        let reply = api.send(request).await;
        assert_eq!((reply.status, reply.header("connection")), (status, None));
        assert!(watch.ended());
    }
}
