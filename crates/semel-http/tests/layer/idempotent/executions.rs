//! I9: a client that hangs up does not end its transaction. And handlers that end badly.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use http::Request;
use semel_engine::{Answer, EngineError};
use semel_http::{IdempotentLayer, IdempotentRequest, ReplyBody, RequestBody, Routes, metric};
use tower::{ServiceBuilder, ServiceExt as _};
use tower_service::Service as _;

use super::{Api, run};
use crate::support::{Counts, HandlerError, Reply, Step, TestBody, With, charge, policy, until};

/// Sends a request and hangs up after so many polls.
async fn hang_up_after(api: &Api, request: Request<TestBody>, polls: usize) {
    let mut answer = Box::pin(api.service.clone().call(request));
    for _ in 0..polls {
        let mut context = Context::from_waker(Waker::noop());
        assert!(matches!(Pin::new(&mut answer).poll(&mut context), Poll::Pending));
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_transaction_outlives_its_client() {
    let api = Api::counting(policy());
    api.charges.gate.forget_permits(usize::MAX);
    hang_up_after(&api, charge("k", "100"), 3).await;
    assert_eq!((api.runs(), api.committed()), (1, 0));
    api.let_commit();
    until("it was committed", || api.committed() == 1).await;
    let retry = api.send(charge("k", "100")).await;
    assert!(retry.is_replayed() && retry.text() == "run 1", "{retry:?}");
}

#[tokio::test]
async fn a_client_that_hangs_up_before_its_body_is_there_leaves_no_trace() {
    let api = Api::counting(policy());
    let body = TestBody::of([Step::data("1"), Step::Yield, Step::Yield, Step::data("00")]);
    hang_up_after(&api, charge("k", body), 2).await;
    hang_up_after(&api, charge("k", "100"), 0).await;
    tokio::task::yield_now().await;
    assert_eq!((api.runs(), api.committed()), (0, 0));
}

/// I10: disconnected clients cannot pile up work without limit.
#[tokio::test]
async fn more_executions_than_the_layer_allows_are_refused() {
    let counts = Counts::default();
    let layer = IdempotentLayer::new(counts.routes(policy())).max_executions(1);
    let api = Api::with_layer(layer, run);
    api.charges.gate.forget_permits(usize::MAX);
    hang_up_after(&api, charge("first", "100"), 3).await;
    assert_eq!(api.runs(), 1);
    let reply = api.send(charge("second", "100")).await;
    reply.assert_problem(503, "too_busy", true);
    reply.assert_retry_after(true);
    assert_eq!(counts.of("refused"), 1);
    api.let_commit();
    until("the first was committed", || api.committed() == 1).await;
    assert_eq!(api.send(charge("second", "100")).await.status, 201);
}

/// Trap 25: nor can one client.
#[tokio::test]
async fn more_executions_than_a_client_may_have_are_refused() {
    let counts = Counts::default();
    let layer = IdempotentLayer::new(counts.routes(policy().max_executions_per_scope(1)));
    let api = Api::with_layer(layer, run);
    let of = |who: &str, key: &str| charge(key, "100").with("authorization", who);
    api.charges.gate.forget_permits(usize::MAX);
    hang_up_after(&api, of("ann", "first"), 3).await;
    assert_eq!(api.runs(), 1);
    let reply = api.send(of("ann", "second")).await;
    reply.assert_problem(429, "too_many_keys", true);
    reply.assert_retry_after(true);
    assert_eq!((counts.of("too_many_keys"), api.runs()), (1, 1));
    hang_up_after(&api, of("bob", "first"), 3).await;
    assert_eq!(api.runs(), 2);
    api.let_commit();
    until("both were committed", || api.committed() == 2).await;
    assert_eq!(api.send(of("ann", "second")).await.status, 201);
}

#[tokio::test]
async fn a_panicking_handler_is_execution_interrupted_and_rolled_back() {
    let counts = Counts::default();
    let api = Api::with_layer(IdempotentLayer::new(counts.routes(policy())), |number| {
        assert!(number > 1, "on purpose");
        run(number)
    });
    let reply = api.send(charge("k", "100")).await;
    reply.assert_problem(500, "execution_interrupted", true);
    assert_eq!((counts.of("unknown"), api.committed()), (1, 0));
    assert_eq!(api.send(charge("k", "100")).await.text(), "run 2");
}

#[tokio::test]
async fn an_error_of_the_service_goes_to_its_caller() {
    let counts = Counts::default();
    let layer = IdempotentLayer::new(counts.routes(policy()));
    let fail = |_: Request<RequestBody<TestBody>>| async {
        Err::<http::Response<TestBody>, _>(HandlerError)
    };
    let service = ServiceBuilder::new().layer(layer).service_fn(fail);
    let error = service.oneshot(charge("k", "100")).await.unwrap_err();
    assert_eq!((error, counts.of("failed")), (HandlerError, 1));
}

/// Works for five seconds, and takes three to claim or commit, by the key.
async fn slowly(
    request: Request<RequestBody<TestBody>>,
) -> Result<http::Response<ReplyBody>, HandlerError> {
    let attempt = request.extensions().get::<IdempotentRequest>().unwrap();
    let outcome = if request.headers()["idempotency-key"] == "first" {
        tokio::time::sleep(Duration::from_secs(5)).await;
        Some(attempt.outcome(http::Response::builder().status(503).body("later").unwrap()))
    } else {
        None
    };
    tokio::time::sleep(Duration::from_secs(3)).await;
    let fence = semel_core::Fence::FIRST;
    Ok(match outcome {
        Some(outcome) => attempt.respond(Answer::Released { outcome, fence }),
        None if request.headers()["idempotency-key"] == "second" => {
            attempt.respond(Answer::Mismatch)
        }
        None => attempt.refuse(EngineError::Interrupted),
    })
}

#[tokio::test(start_paused = true)]
async fn work_time_and_added_time_are_separate() {
    let counts = Counts::default();
    let layer = IdempotentLayer::new(counts.routes(policy()));
    let service = ServiceBuilder::new().layer(layer).service_fn(slowly);
    for key in ["first", "second", "third"] {
        service.clone().oneshot(charge(key, "100")).await.unwrap();
    }
    let rounded = |name| -> Vec<_> { counts.seconds(name).iter().map(|s| s.round()).collect() };
    assert_eq!(rounded(metric::UPSTREAM_SECONDS), [5.0]);
    assert_eq!(rounded(metric::ADDED_SECONDS), [3.0; 3]);
}

/// A handler may answer without a claim, and then that is the answer.
#[tokio::test]
async fn a_response_of_its_own_is_passed_on_as_it_is() {
    let layer = IdempotentLayer::new(Routes::default());
    let reject = |_: Request<RequestBody<TestBody>>| async {
        let response = http::Response::builder().status(422);
        Ok::<_, HandlerError>(response.body(TestBody::from("no amount")).unwrap())
    };
    let service = ServiceBuilder::new().layer(layer).service_fn(reject);
    let reply = Reply::of(service.oneshot(charge("k", "100")).await.unwrap()).await;
    assert_eq!((reply.status, reply.text(), reply.headers.len()), (422, "no amount", 0));
}
