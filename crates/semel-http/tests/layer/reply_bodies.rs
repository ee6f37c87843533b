//! Replies that are too large to keep, and replies that break off.

use http::Response;
use http_body_util::BodyExt as _;
use semel_core::{OnUnknown, State};
use semel_http::{RoutePolicyBuilder, TimedOut};
use tower::ServiceExt as _;

use crate::support::{Api, BodyError, Handler, Step, TestBody, With, charge, policy};

fn large(body: fn() -> TestBody) -> Api {
    let handler = Handler::replying(move |_| {
        let response = Response::builder().status(201).body(body()).unwrap();
        response
            .with("content-length", "3000")
            .with("content-type", "text/plain")
            .with("location", "/charges/1")
    });
    Api::new(policy().max_reply_body(1_000), handler)
}

#[tokio::test]
async fn a_reply_that_is_too_large_streams_through_and_is_never_executed_again() {
    let bodies: [fn() -> TestBody; 2] =
        [|| TestBody::pieces(30, 100), || TestBody::pieces(30, 100).declaring(3_000)];
    for body in bodies {
        let api = large(body);
        let first = api.send(charge("k", "100")).await;
        assert_eq!((first.status, first.body.len()), (201, 3_000));
        assert_eq!(first.header("content-length"), Some("3000"));
        assert_eq!(first.header("x-idempotency-body"), None);
        assert!(first.header("x-idempotency-expires").is_some());

        for _ in 0..2 {
            let replay = api.send(charge("k", "100")).await;
            assert_eq!((replay.status, replay.body.len()), (201, 0));
            assert!(replay.is_replayed());
            assert_eq!(replay.header("x-idempotency-body"), Some("omitted"));
            assert_eq!(replay.header("content-length"), None);
            assert_eq!(replay.header("location"), Some("/charges/1"));
            assert_eq!(replay.header("content-type"), Some("text/plain"));
            let expires = replay.header("x-idempotency-expires");
            assert_eq!(expires, first.header("x-idempotency-expires"));
        }
        assert_eq!(api.handler.runs(), 1);
    }
}

/// What is over the limit is not collected: its first piece is there before its last.
#[tokio::test]
async fn a_reply_that_is_too_large_is_handed_on_before_its_end() {
    let api = large(|| {
        let piece = Step::Data(vec![b'x'; 1_001].into());
        TestBody::of([piece, Step::Stall])
    });
    let response = api.service.clone().oneshot(charge("k", "100")).await.unwrap();
    let frame = response.into_body().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap().len(), 1_001);
    // Settled first (I6): the outcome is durable before the client has it all.
    assert!(matches!(api.state().await, Some(State::Settled(_))));
    assert!(api.send(charge("k", "100")).await.is_replayed());
}

#[tokio::test]
async fn a_reply_of_exactly_the_limit_is_kept() {
    let api = large(|| TestBody::pieces(10, 100));
    let first = api.send(charge("k", "100")).await;
    let replay = api.send(charge("k", "100")).await;
    assert_eq!(replay.body.len(), 1_000);
    replay.assert_replays(&first);
}

/// An API whose first reply breaks off in the middle.
fn breaking(policy: RoutePolicyBuilder, error: BodyError) -> Api {
    let handler = Handler::replying(move |seen| {
        let end = if seen.run == 1 { Step::Fail(error.clone()) } else { Step::data(" whole") };
        Response::new(TestBody::of([Step::data("half"), end])).with("x-upstream", "1")
    });
    Api::new(policy, handler)
}

#[tokio::test]
async fn a_reply_that_breaks_off_is_an_error_and_the_key_is_free_again() {
    for (error, status, code) in [
        (BodyError::Gone, 502, "upstream_unreachable"),
        (BodyError::Slow(TimedOut), 504, "upstream_timeout"),
    ] {
        let api = breaking(policy(), error);
        let reply = api.send(charge("k", "100")).await;
        reply.assert_problem(status, code, true);
        assert_eq!(reply.header("x-upstream"), None);
        assert_eq!(api.state().await, Some(State::Released));

        let retry = api.send(charge("k", "100")).await;
        assert_eq!((retry.status, retry.text()), (200, "half whole"));
        assert_eq!(api.handler.last().header("idempotency-fence"), Some("2"));
    }
}

#[tokio::test]
async fn a_reply_that_breaks_off_holds_the_key_where_the_route_says_so() {
    let api = breaking(policy().on_unknown(OnUnknown::Hold), BodyError::Gone);
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(502, "upstream_unreachable", true);
    assert_eq!(api.state().await, Some(State::Held));
    api.send(charge("k", "100")).await.assert_problem(409, "outcome_unknown", true);
    assert_eq!(api.handler.runs(), 1);
}

/// Nothing of it is kept, so nothing of it is collected.
#[tokio::test]
async fn a_reply_that_releases_the_key_streams_through() {
    let handler = Handler::replying(|_| {
        let body = TestBody::of([Step::data("first"), Step::Stall]);
        Response::builder().status(503).body(body).unwrap()
    });
    let api = Api::new(policy(), handler);
    let response = api.service.clone().oneshot(charge("k", "100")).await.unwrap();
    assert_eq!((response.status().as_u16(), api.state().await), (503, Some(State::Released)));
    let frame = response.into_body().frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "first");
}
