//! What all apps of the comparison answer.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, LINK, SET_COOKIE};
use axum::response::{AppendHeaders, IntoResponse};
use axum::routing::{get, post};

const SLOW: Duration = Duration::from_secs(1);

/// How often the app did its work.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
/// 300 bytes of JSON.
static REPLY: LazyLock<Bytes> = LazyLock::new(|| {
    let (head, tail) = (r#"{"id":"ord_1","status":"created","note":""#, r#""}"#);
    let note = "n".repeat(300 - head.len() - tail.len());
    format!("{head}{note}{tail}").into()
});

pub fn orders() -> Router {
    Router::new()
        .route("/v1/orders", post(order))
        .route("/v1/slow", post(slow))
        .route("/v1/bytes", post(bytes))
        .route("/v1/headers", post(headers))
}

pub fn count() -> Router {
    Router::new().route("/count", get(async || EXECUTIONS.load(Ordering::Relaxed).to_string()))
}

async fn order(_order: Bytes) -> impl IntoResponse {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
    created()
}

async fn slow(_order: Bytes) -> impl IntoResponse {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
    tokio::time::sleep(SLOW).await;
    created()
}

async fn bytes(_order: Bytes) -> impl IntoResponse {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
    let every_byte: Vec<u8> = (0..=u8::MAX).collect();
    (StatusCode::CREATED, [(CONTENT_TYPE, "application/octet-stream")], every_byte)
}

async fn headers(_order: Bytes) -> impl IntoResponse {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
    let repeated = AppendHeaders([
        (LINK, r#"</v1/orders/1>; rel="self""#),
        (LINK, r#"</v1/orders>; rel="up""#),
        (SET_COOKIE, "a=1; Path=/"),
        (SET_COOKIE, "b=2; Path=/"),
    ]);
    (repeated, created())
}

fn created() -> impl IntoResponse {
    (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], REPLY.clone())
}
