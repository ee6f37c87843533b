//! Which requests need a key, which may bring one, and which are left alone.

use std::convert::Infallible;
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::BodyExt as _;
use semel_http::{KeyRule, MatchedRoute, Mode, RequestBody, Routes, SemelLayer};
use tower::{ServiceBuilder, ServiceExt as _};

use crate::support::{Api, Handler, Step, TestBody, Verb, With, engine, keyless, policy};

fn keyed(method: &str) -> Request<TestBody> {
    keyless(method, "/charges", "100").with("idempotency-key", "k")
}

#[tokio::test]
async fn methods_that_change_things_are_protected_by_their_key() {
    for method in ["POST", "PATCH", "PUT", "DELETE", "PURGE"] {
        let api = Api::new(policy(), Handler::counting());
        let first = api.send(keyed(method)).await;
        api.send(keyed(method)).await.assert_replays(&first);
        assert_eq!(api.handler.runs(), 1, "{method}");
    }
}

#[tokio::test]
async fn methods_that_only_read_are_never_protected() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
        let api = Api::new(policy(), Handler::counting());
        for run in 1..=2 {
            let reply = api.send(keyed(method)).await;
            assert_eq!(reply.text(), format!("run {run}"), "{method}");
            assert!(!reply.is_replayed() && reply.header("x-idempotency-expires").is_none());
        }
        assert_eq!(api.store.calls(Verb::Claim), 0, "{method}");
        // Not even a bad key matters.
        let reply = api.send(keyed(method).with("idempotency-key", "other")).await;
        assert_eq!(reply.status, 201);
    }
}

/// Some frameworks execute a GET with `X-HTTP-Method-Override: POST` as a POST.
#[tokio::test]
async fn a_request_in_place_of_another_method_needs_the_key_of_that() {
    for name in
        ["x-http-method-override", "x-http-method", "x-method-override", "x_http_method_override"]
    {
        let api = Api::new(policy(), Handler::counting());
        for method in ["GET", "HEAD", "OPTIONS", "PUT"] {
            for meant in ["POST", "patch", "GET, POST"] {
                let reply = api.send(keyless(method, "/charges", "").with(name, meant)).await;
                reply.assert_problem(400, "idempotency_key_missing", false);
            }
        }
        let first = api.send(keyed("GET").with(name, "POST")).await;
        api.send(keyed("GET").with(name, "POST")).await.assert_replays(&first);
        let other = api.send(keyed("GET").with(name, "PATCH")).await;
        other.assert_problem(409, "idempotency_payload_mismatch", false);
        for (method, meant) in [("GET", "GET"), ("GET", ""), ("GET", "DELETE"), ("PUT", "GET")] {
            let reply = api.send(keyless(method, "/charges", "").with(name, meant)).await;
            assert_eq!(reply.status, 201, "{method} {meant}");
        }
    }
}

#[tokio::test]
async fn a_read_in_place_of_another_method_comes_under_the_route_of_that() {
    let mut routes = Routes::new(policy().mode(Mode::Off).build().unwrap());
    routes.add("POST /v1/charges", policy().build().unwrap()).unwrap();
    let api = Api::with_routes(routes, Handler::counting());
    let send =
        |path, meant| api.send(keyless("GET", path, "").with("x-http-method-override", meant));
    let missing = send("/v1/charges", "POST").await;
    missing.assert_problem(400, "idempotency_key_missing", false);
    send("/v1%2Fcharges", "POST").await.assert_problem(400, "request_refused", false);
    for (path, meant) in [("/v1/charges", "PUT"), ("/v1%2Fcharges", "GET"), ("/other", "POST")] {
        assert_eq!(send(path, meant).await.status, 201, "{path} {meant}");
    }
}

#[tokio::test]
async fn idempotent_methods_without_a_key_pass_untouched() {
    for method in ["PUT", "DELETE"] {
        let api = Api::new(policy().max_request_body(1), Handler::counting());
        for run in 1..=2 {
            let reply = api.send(keyless(method, "/charges/1", "more than a byte")).await;
            assert_eq!((reply.status, reply.text()), (201, &*format!("run {run}")), "{method}");
            assert_eq!(reply.headers.len(), 0, "{:?}", reply.headers);
        }
        assert_eq!(api.handler.last().body, "more than a byte");
        assert_eq!((api.store.calls(Verb::Claim), api.handler.last().headers.len()), (0, 0));
    }
}

/// A service that answers with the first piece of the body, as soon as it is there.
async fn first_piece(
    request: Request<RequestBody<TestBody>>,
) -> Result<Response<TestBody>, Infallible> {
    let mut body = request.into_body();
    let was_read = body.was_read();
    let frame = body.frame().await.unwrap().unwrap();
    let piece = frame.into_data().unwrap();
    Ok(Response::new(TestBody::from(piece)).with("was-read", &was_read.to_string()))
}

#[tokio::test]
async fn a_body_that_never_ends_reaches_the_handler_of_a_keyless_put() {
    let layer = SemelLayer::new(engine(), Routes::default());
    let service = ServiceBuilder::new().layer(layer).service_fn(first_piece);
    let body = TestBody::of([Step::data("first"), Step::Stall]);
    let response = service.oneshot(keyless("PUT", "/upload", body)).await.unwrap();
    assert_eq!(response.headers()["was-read"], "false");
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "first");
}

#[tokio::test]
async fn a_route_can_ask_for_a_key_from_everyone() {
    let api = Api::new(policy().key(KeyRule::Required), Handler::counting());
    for method in ["GET", "PUT"] {
        let reply = api.send(keyless(method, "/charges", "")).await;
        reply.assert_problem(400, "idempotency_key_missing", false);
    }
    let first = api.send(keyed("GET")).await;
    api.send(keyed("GET")).await.assert_replays(&first);
    assert_eq!(api.handler.runs(), 1);
}

#[tokio::test]
async fn a_route_can_leave_the_key_to_its_clients() {
    let api = Api::new(policy().key(KeyRule::Optional), Handler::counting());
    for run in 1..=2 {
        let reply = api.send(keyless("POST", "/charges", "100")).await;
        assert_eq!(reply.text(), format!("run {run}"));
    }
    let first = api.send(keyed("POST")).await;
    api.send(keyed("POST")).await.assert_replays(&first);
}

#[tokio::test]
async fn a_route_that_is_off_is_left_alone() {
    let api = Api::new(policy().mode(Mode::Off), Handler::counting());
    for run in 1..=2 {
        let reply = api.send(keyed("POST")).await;
        assert_eq!((reply.text(), reply.headers.len()), (&*format!("run {run}"), 0));
    }
    assert_eq!(api.send(keyless("POST", "/charges", "100")).await.status, 201);
    assert_eq!(api.store.calls(Verb::Claim), 0);
}

#[tokio::test]
async fn each_route_has_its_own_policy_and_handlers_learn_which() {
    let mut routes = Routes::default();
    routes.add("POST /hooks/{id}", policy().mode(Mode::Off).build().unwrap()).unwrap();
    let layer = SemelLayer::new(engine(), routes);
    let route = |request: Request<RequestBody<TestBody>>| async move {
        let matched = request.extensions().get::<MatchedRoute>();
        let name = matched.map_or("none".to_owned(), |MatchedRoute(route)| route.name().to_owned());
        Ok::<_, Infallible>(Response::new(TestBody::from(name)))
    };
    let service = Arc::new(ServiceBuilder::new().layer(layer).service_fn(route));
    let send = |request| async {
        let response = (*service).clone().oneshot(request).await.unwrap();
        (response.status().as_u16(), response.into_body().collect().await.unwrap().to_bytes())
    };
    let hook = send(keyless("POST", "/hooks/7", "")).await;
    assert_eq!(hook, (200, "POST /hooks/{id}".into()));
    assert_eq!(send(keyless("POST", "/charges", "")).await.0, 400);
    assert_eq!(send(keyed("POST")).await, (200, "none".into()));
}

/// Protected, and passed on as it was sent: what it means is for the service to say.
#[tokio::test]
async fn no_spelling_of_its_path_gets_a_request_around_its_route() {
    let mut routes = Routes::new(policy().mode(Mode::Off).build().unwrap());
    routes.add("POST /v1/charges", policy().build().unwrap()).unwrap();
    let api = Api::with_routes(routes, Handler::counting());
    let spellings = [
        "/v1//charges",
        "/v1/./charges",
        "/v1/x/../charges",
        "/v1/%63harges",
        "/v1/x/%2e%2e/charges",
        "//v1/charges?a=//",
    ];
    for (key, spelling) in spellings.into_iter().enumerate() {
        let reply = api.send(keyless("POST", spelling, "100")).await;
        reply.assert_problem(400, "idempotency_key_missing", false);
        let keyed = keyless("POST", spelling, "100").with("idempotency-key", &key.to_string());
        assert_eq!(api.send(keyed).await.status, 201);
        assert_eq!(api.handler.last().uri, spelling);
    }
    assert_eq!(
        (api.handler.runs(), api.store.calls(Verb::Claim)),
        (spellings.len(), spellings.len())
    );
}
