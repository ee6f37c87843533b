//! Requests that reach the handler without an attempt, and the extensions of the others.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use semel_http::{IdempotentLayer, MatchedRoute, Mode, PartSource, RequestBody, Routes};
use tower::{ServiceBuilder, ServiceExt as _};

use super::{Api, run};
use crate::support::{Counts, Step, TestBody, With, charge, keyless, policy};

#[tokio::test]
async fn requests_that_need_no_key_pass_without_an_attempt() {
    for (method, key) in [("PUT", None), ("DELETE", None), ("GET", Some("k")), ("HEAD", Some("k"))]
    {
        let api = Api::counting(policy().max_request_body(1));
        for run in 1..=2 {
            let mut request = keyless(method, "/charges/1", "more than a byte");
            if let Some(key) = key {
                request = request.with("idempotency-key", key);
            }
            let reply = api.send(request).await;
            assert_eq!((reply.status, reply.text()), (201, &*format!("run {run}")), "{method}");
            assert_eq!(reply.headers.len(), 0, "{:?}", reply.headers);
            api.last(|seen| assert!(seen.attempt.is_none() && !seen.was_read));
        }
        assert_eq!(api.last(|seen| seen.body.clone()), "more than a byte");
        assert_eq!(api.committed(), 0);
    }
}

#[tokio::test]
async fn a_put_with_a_key_is_an_attempt() {
    let api = Api::counting(policy());
    let put = || keyless("PUT", "/charges/1", "100").with("idempotency-key", "k");
    let first = api.send(put()).await;
    api.send(put()).await.assert_replays(&first);
}

/// It might have had a key in its body.
#[tokio::test]
async fn a_put_without_a_key_in_its_body_passes_complete() {
    let key_from: Vec<PartSource> = vec!["json:/key".parse().unwrap()];
    let api = Api::counting(policy().key_from(key_from).max_request_body(15));
    let put = |body: &str| {
        let steps: Vec<_> =
            body.split_inclusive(':').map(|part| Step::Data(part.to_owned().into())).collect();
        keyless("PUT", "/charges", TestBody::of(steps))
    };
    let body = r#"{"amount":100}"#;
    assert_eq!(api.send(put(body)).await.status, 201);
    api.last(|seen| assert!(seen.attempt.is_none() && seen.body == body));
    // What cannot be searched may have one.
    let large = api.send(put(r#"{"amount":100,"key":"k"}"#)).await;
    large.assert_problem(413, "request_body_too_large", false);
    assert_eq!(api.runs(), 1);
}

#[tokio::test]
async fn a_fence_that_a_client_made_up_is_removed() {
    let api = Api::counting(policy());
    for request in [charge("k", "100"), keyless("PUT", "/charges/1", "100")] {
        api.send(request.with("idempotency-fence", "99")).await;
        api.last(|seen| assert!(!seen.headers.contains_key("idempotency-fence")));
    }
    assert_eq!(api.runs(), 2);
}

#[tokio::test]
async fn a_route_that_is_off_or_in_the_shadow_is_left_alone() {
    for (mode, counted) in [(Mode::Off, vec![]), (Mode::Shadow, vec![("unchecked".to_owned(), 3)])]
    {
        let counts = Counts::default();
        let routes = counts.routes(policy().mode(mode).max_request_body(1));
        let api = Api::with_layer(IdempotentLayer::new(routes), run);
        for request in
            [charge("k", "100"), charge("two words", "100"), keyless("POST", "/charges", "100")]
        {
            let reply = api.send(request).await;
            assert_eq!((reply.status, reply.headers.len()), (201, 0));
            api.last(|seen| assert!(seen.attempt.is_none() && !seen.was_read));
        }
        assert_eq!((api.runs(), counts.all()), (3, counted));
    }
}

#[tokio::test]
async fn an_attempt_has_the_policy_of_its_route_and_handlers_learn_which() {
    let mut routes = Routes::default();
    let ttl = std::time::Duration::from_hours(7);
    routes.add("POST /accounts/{id}", policy().ttl(ttl).build().unwrap()).unwrap();
    let name = |request: Request<RequestBody<TestBody>>| async move {
        let MatchedRoute(route) = request.extensions().get().unwrap();
        let attempt: &semel_http::IdempotentRequest = request.extensions().get().unwrap();
        let text = format!("{}, {:?}", route.name(), attempt.policy().ttl());
        Ok::<_, Infallible>(Response::new(TestBody::from(text)))
    };
    let service = ServiceBuilder::new().layer(IdempotentLayer::new(routes)).service_fn(name);
    let request = keyless("POST", "/accounts/1", "100").with("idempotency-key", "k");
    let response = service.oneshot(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "POST /accounts/{id}, 25200s");
}
