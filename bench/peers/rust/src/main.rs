//! One axum app that answers at once, with Semel's layer or with a peer's around it. Both keep
//! their records on the same Redis.
//!
//! ```sh
//! semel-bench-peers semel|idempotent redis://127.0.0.1:6379
//! ```

use std::error::Error;
use std::io::Read as _;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use idempotent::middleware::IdempotencyLayer;
use idempotent::valkey::ValkeyStore;
use semel::Engine;
use semel::http::{RoutePolicy, Routes, SemelLayer};
use semel::store::{Guard, Guarded};
use tokio::net::TcpListener;

/// How often the app did its work.
static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
/// 300 bytes of JSON.
static REPLY: LazyLock<Bytes> = LazyLock::new(|| {
    let (head, tail) = (r#"{"id":"ord_1","status":"created","note":""#, r#""}"#);
    let note = "n".repeat(300 - head.len() - tail.len());
    format!("{head}{note}{tail}").into()
});

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Whoever started it holds the other end.
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut arguments = std::env::args().skip(1);
    let (layer, redis) = (arguments.next().unwrap_or_default(), arguments.next());
    let redis = redis.ok_or("usage: semel-bench-peers semel|idempotent redis://HOST:PORT")?;
    let app = match layer.as_str() {
        "semel" => with_semel(&redis).await?,
        "idempotent" => with_idempotent(&redis).await?,
        other => return Err(format!("no such layer: {other:?}").into()),
    };
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("app listening on {}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

fn app() -> Router {
    Router::new()
        .route("/v1/orders", post(order))
        .route("/count", get(async || EXECUTIONS.load(Ordering::Relaxed).to_string()))
}

async fn order(_order: Bytes) -> impl IntoResponse {
    EXECUTIONS.fetch_add(1, Ordering::Relaxed);
    (StatusCode::CREATED, [(CONTENT_TYPE, "application/json")], REPLY.clone())
}

/// As the guide has it: the store behind a guard, and the default policy.
async fn with_semel(redis: &str) -> Result<Router, Box<dyn Error>> {
    let verb_timeout = Duration::from_secs(2);
    let guard = Guard { deadline: verb_timeout + Duration::from_millis(500), ..Guard::default() };
    let store = semel::redis::Options::from_url(redis)?.verb_timeout(verb_timeout).open().await?;
    let engine = Engine::new(Guarded::new(store, guard));
    Ok(app().layer(SemelLayer::new(engine, Routes::new(RoutePolicy::default()))))
}

/// As its manual has it, with keys of each caller apart.
async fn with_idempotent(redis: &str) -> Result<Router, Box<dyn Error>> {
    let store = ValkeyStore::with_url(redis).prefix("peer").try_build().await?;
    let layer = IdempotencyLayer::new(store)
        .scope(|parts| parts.headers.get("authorization")?.to_str().ok().map(String::from));
    Ok(app().layer(layer))
}
