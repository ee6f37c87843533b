//! Which requests reach the handler without an attempt, and what it is told about the others.

use std::convert::Infallible;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use semel_http::{KeyedLayer, MatchedRoute, Mode, PartSource, RequestBody, Routes};
use tower::{ServiceBuilder, ServiceExt as _};

use super::{Api, run};
use crate::support::{Counts, Step, TestBody, With, charge, keyless, policy};

#[tokio::test]
async fn what_needs_no_key_passes_without_an_attempt() {
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
            api.last(|seen| assert!(seen.keyed.is_none() && !seen.was_read));
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
async fn a_put_whose_body_was_searched_in_vain_passes_whole() {
    let key_from: Vec<PartSource> = vec!["json:/key".parse().unwrap()];
    let api = Api::counting(policy().key_from(key_from).max_request_body(15));
    for body in [r#"{"amount":100}"#, r#"{"amount":100,"key":"k"}"#] {
        let steps = body.split_inclusive(':').map(|part| Step::Data(part.into()));
        let reply = api.send(keyless("PUT", "/charges", TestBody::of(steps))).await;
        assert_eq!(reply.status, 201);
        api.last(|seen| assert!(seen.keyed.is_none() && seen.body == body));
    }
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
        let api = Api::with_layer(KeyedLayer::new(routes), run);
        for request in
            [charge("k", "100"), charge("two words", "100"), keyless("POST", "/charges", "100")]
        {
            let reply = api.send(request).await;
            assert_eq!((reply.status, reply.headers.len()), (201, 0));
            api.last(|seen| assert!(seen.keyed.is_none() && !seen.was_read));
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
        let keyed: &semel_http::Keyed = request.extensions().get().unwrap();
        let text = format!("{}, {:?}", route.name(), keyed.policy().ttl());
        Ok::<_, Infallible>(Response::new(TestBody::from(text)))
    };
    let service = ServiceBuilder::new().layer(KeyedLayer::new(routes)).service_fn(name);
    let request = keyless("POST", "/accounts/1", "100").with("idempotency-key", "k");
    let response = service.oneshot(request).await.unwrap();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "POST /accounts/{id}, 25200s");
}
