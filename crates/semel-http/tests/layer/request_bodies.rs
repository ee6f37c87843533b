//! Bodies are read before anything is claimed, within limits.

use std::time::Duration;

use http::Request;
use semel_http::TimedOut;
use tokio::time::Instant;

use crate::support::{Api, BodyError, Handler, Reply, Step, TestBody, Verb, charge, policy};

fn api() -> Api {
    Api::new(policy().max_request_body(100), Handler::counting())
}

/// Sends a request that must leave no trace.
async fn refused(api: &Api, request: Request<TestBody>) -> Reply {
    let reply = api.send(request).await;
    assert_eq!(
        (api.handler.runs(), api.store.calls(Verb::Claim), api.store.memory().len()),
        (0, 0, 0)
    );
    reply.assert_retry_after(false);
    reply
}

#[tokio::test]
async fn a_body_is_not_read_beyond_the_limit() {
    let api = api();
    let body = TestBody::pieces(1_000, 40);
    let watch = body.watch();
    let reply = refused(&api, charge("k", body)).await;
    reply.assert_problem(413, "request_body_too_large", false);
    // The piece that goes over is the last one taken.
    assert_eq!((watch.bytes(), watch.polls()), (120, 3));
}

#[tokio::test]
async fn a_body_that_declares_itself_too_large_is_not_read_at_all() {
    let api = api();
    let body = TestBody::pieces(1_000, 40).declaring(101);
    let watch = body.watch();
    let reply = refused(&api, charge("k", body)).await;
    reply.assert_problem(413, "request_body_too_large", false);
    assert_eq!(watch.polls(), 0);
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_accepted() {
    let api = api();
    for (key, body) in [
        ("declared", TestBody::from(vec![b'x'; 100])),
        ("pieces", TestBody::pieces(4, 25)),
        (
            "pieces and empty ones",
            TestBody::of([Step::Data(vec![b'x'; 100].into()), Step::data("")]),
        ),
    ] {
        let reply = api.send(charge(&key.replace(' ', "-"), body)).await;
        assert_eq!(reply.status, 201, "{key}");
        assert_eq!(api.handler.last().body.len(), 100, "{key}");
    }
}

#[tokio::test]
async fn a_chunked_body_reaches_the_handler_complete_and_is_the_same_request() {
    let api = api();
    let steps = [Step::data("1"), Step::Yield, Step::data("0"), Step::data(""), Step::data("0")];
    let first = api.send(charge("k", TestBody::of(steps))).await;
    assert_eq!(api.handler.last().body, "100");
    api.send(charge("k", "100")).await.assert_replays(&first);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_refused() {
    let api = api();
    let body = TestBody::of([Step::data("10"), Step::Fail(BodyError::Gone)]);
    let reply = refused(&api, charge("k", body)).await;
    reply.assert_problem(400, "request_body_broken", true);
    assert_eq!(reply.header("connection"), Some("close"));
    // The same request, complete, is not a mismatch.
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_refused_in_time() {
    let timeout = Duration::from_secs(5);
    let api = Api::new(policy().request_body_timeout(timeout), Handler::counting());
    let body = TestBody::of([Step::data("10"), Step::Stall]);
    let began = Instant::now();
    let reply = refused(&api, charge("k", body)).await;
    assert!((timeout..timeout * 2).contains(&began.elapsed()), "{:?}", began.elapsed());
    reply.assert_problem(408, "request_timeout", true);
    assert_eq!(reply.header("connection"), Some("close"));
    assert_eq!(api.send(charge("k", "100")).await.status, 201);
}

#[tokio::test]
async fn a_body_that_times_out_is_request_timeout() {
    let api = api();
    let body = TestBody::of([Step::data("10"), Step::Fail(BodyError::Slow(TimedOut))]);
    let reply = refused(&api, charge("k", body)).await;
    reply.assert_problem(408, "request_timeout", true);
}

#[tokio::test]
async fn a_slow_client_holds_no_lease() {
    let api = api();
    let slow = api.spawn(charge("k", TestBody::of([Step::data("10"), Step::Stall])));
    // Another client of the same key is not kept from executing.
    let reply = api.send(charge("k", "100")).await;
    assert_eq!((reply.status, api.store.calls(Verb::Claim)), (201, 1));
    slow.abort();
    assert!(slow.await.unwrap_err().is_cancelled());
    assert_eq!(api.store.calls(Verb::Claim), 1);
}
