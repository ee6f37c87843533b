//! The layer in the places it is made for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use semel_http::{Preset, RequestBody, RoutePolicy, Routes, SemelLayer};
use tower::{ServiceBuilder, ServiceExt as _, service_fn};

use crate::support::{Reply, engine};

type Runs = Arc<AtomicUsize>;

fn layer() -> SemelLayer {
    SemelLayer::new(engine(), Routes::default())
}

/// An axum handler that reads its body as bytes and looks for an amount.
async fn create_charge(
    State(runs): State<Runs>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<impl IntoResponse, StatusCode> {
    let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
    let text = std::str::from_utf8(&body).map_err(|_| StatusCode::BAD_REQUEST)?;
    let amount = text.strip_prefix(r#"{"amount":"#).and_then(|text| text.strip_suffix('}'));
    let amount = amount.ok_or(StatusCode::UNPROCESSABLE_ENTITY)?;
    let fence = headers["idempotency-fence"].to_str().unwrap().to_owned();
    let location = [("location", format!("/charges/{run}"))];
    Ok((StatusCode::CREATED, location, format!("{amount} under {fence}")))
}

fn app(runs: &Runs, layer: SemelLayer) -> Router {
    Router::new()
        .route("/charges", post(create_charge))
        .route("/charges", get(|| async { "a list" }))
        .layer(layer)
        .with_state(runs.clone())
}

fn charge(body: &'static str) -> Request<Body> {
    Request::post("/charges")
        .header("idempotency-key", "order-1")
        .header("content-type", "application/json")
        .body(Body::from(body))
        .unwrap()
}

async fn send(app: &Router, request: Request<Body>) -> Reply {
    Reply::of(app.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test]
async fn an_axum_router_is_protected() {
    let runs = Runs::default();
    let app = app(&runs, layer());
    let first = send(&app, charge(r#"{"amount":100}"#)).await;
    assert_eq!((first.status, first.text()), (201, "100 under 1"));
    assert_eq!(first.header("location"), Some("/charges/1"));

    let retry = send(&app, charge(r#"{ "amount": 100 }"#)).await;
    retry.assert_replays(&first);
    assert_eq!(retry.header("location"), Some("/charges/1"));
    let mismatch = send(&app, charge(r#"{"amount":200}"#)).await;
    mismatch.assert_problem(409, "idempotency_payload_mismatch", false);
    let keyless = Request::post("/charges").body(Body::from("{}")).unwrap();
    send(&app, keyless).await.assert_problem(400, "idempotency_key_missing", false);
    let list = Request::get("/charges").body(Body::empty()).unwrap();
    assert_eq!(send(&app, list).await.text(), "a list");
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn an_axum_route_can_have_a_policy_of_its_own() {
    let payments = RoutePolicy::builder().preset(Preset::Payments).build().unwrap();
    let mut routes = Routes::default();
    routes.add("POST /charges", payments).unwrap();
    let runs = Runs::default();
    let app = app(&runs, SemelLayer::new(engine(), routes));
    let nobody = send(&app, charge(r#"{"amount":100}"#)).await;
    nobody.assert_problem(401, "idempotency_scope_missing", false);
    assert_eq!(runs.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_rejection_of_an_axum_handler_is_an_outcome_like_any_other() {
    let runs = Runs::default();
    let app = app(&runs, layer());
    let first = send(&app, charge("nonsense")).await;
    assert_eq!(first.status, 422);
    send(&app, charge("nonsense")).await.assert_replays(&first);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}

/// As hyper's connections call services: a function of requests.
#[tokio::test]
async fn a_service_of_a_function_is_protected() {
    let runs = Runs::default();
    let counted = runs.clone();
    let echo = service_fn(move |request: Request<RequestBody<Full<Bytes>>>| {
        let runs = counted.clone();
        async move {
            runs.fetch_add(1, Ordering::SeqCst);
            assert!(request.body().was_read());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            Ok::<_, Infallible>(Response::new(Full::new(body)))
        }
    });
    let service = ServiceBuilder::new().layer(layer()).service(echo);
    let request = || {
        let request = Request::post("/charges").header("idempotency-key", "order-1");
        request.body(Full::from("\0\u{1}binary")).unwrap()
    };
    let first = Reply::of(service.clone().oneshot(request()).await.unwrap()).await;
    let retry = Reply::of(service.clone().oneshot(request()).await.unwrap()).await;
    assert_eq!(first.body, "\0\u{1}binary");
    retry.assert_replays(&first);
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
