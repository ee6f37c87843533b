//! The layer above an axum handler, as an application has it.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Response};
use axum::response::IntoResponse;
use axum::routing::{post, put};
use axum::{Extension, Router};
use bytes::Bytes;
use semel_http::{IdempotentLayer, IdempotentRequest, Routes};
use tower::ServiceExt as _;

use super::{Api, Charges};
use crate::support::{Reply, policy};

async fn create_charge(
    State(charges): State<Arc<Charges>>,
    Extension(attempt): Extension<IdempotentRequest>,
    body: Bytes,
) -> impl IntoResponse {
    let work = || attempt.outcome(Response::builder().status(201).body(body).unwrap());
    match charges.once(&attempt, work).await {
        Ok(answer) => attempt.respond(answer).into_response(),
        Err(error) => attempt.refuse(error).into_response(),
    }
}

async fn put_charge(attempt: Option<Extension<IdempotentRequest>>) -> &'static str {
    if attempt.is_some() { "an attempt" } else { "no attempt" }
}

fn app() -> Router {
    // Only its database is needed.
    let charges = Api::counting(policy()).charges;
    Router::new()
        .route("/charges", post(create_charge))
        .route("/charges/{id}", put(put_charge))
        .layer(IdempotentLayer::new(Routes::default()))
        .with_state(charges)
}

async fn send(app: &Router, request: Request<Body>) -> Reply {
    Reply::of(app.clone().oneshot(request).await.unwrap()).await
}

#[tokio::test]
async fn an_axum_handler_claims_by_itself() {
    let app = app();
    let charge = |body: &'static str| {
        let request = Request::post("/charges").header("idempotency-key", "order-1");
        send(&app, request.body(Body::from(body)).unwrap())
    };
    let first = charge("\0\u{1}binary").await;
    assert_eq!((first.status, first.text()), (201, "\0\u{1}binary"));
    assert!(first.header("x-idempotency-expires").is_some());
    charge("\0\u{1}binary").await.assert_replays(&first);
    charge("other").await.assert_problem(409, "idempotency_payload_mismatch", false);
    let keyless = Request::post("/charges").body(Body::empty()).unwrap();
    send(&app, keyless).await.assert_problem(400, "idempotency_key_missing", false);
}

#[tokio::test]
async fn an_axum_handler_can_do_without_an_attempt() {
    let app = app();
    let put = || Request::put("/charges/1");
    let keyless = put().body(Body::empty()).unwrap();
    assert_eq!(send(&app, keyless).await.text(), "no attempt");
    let attempt = put().header("idempotency-key", "k").body(Body::empty()).unwrap();
    assert_eq!(send(&app, attempt).await.text(), "an attempt");
}
