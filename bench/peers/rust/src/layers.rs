//! The layers, each set up as its manual has it.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use axum_idempotent::{IdempotentLayer, IdempotentOptions};
use idempotent::middleware::IdempotencyLayer;
use idempotent::valkey::ValkeyStore;
use ruts::store::Ttl;
use ruts::store::moka::MokaStore;
use ruts::{CookieOptions, Session, SessionLayer};
use semel::Engine;
use semel::http::{RoutePolicy, Routes, SemelLayer};
use semel::store::{Guard, Guarded};
use tower_cookies::CookieManagerLayer;

use crate::routes::orders;

const DAY_SECONDS: u32 = 24 * 60 * 60;

/// As the documentation of the crate has it: the store behind a guard, and the default policy. Without a
/// cache, which the peers do not have either.
pub async fn semel(redis: &str) -> Result<Router, Box<dyn Error>> {
    let verb_timeout = Duration::from_secs(2);
    let guard = Guard { deadline: verb_timeout + Duration::from_millis(500), ..Guard::default() };
    let store = semel::redis::Options::from_url(redis)?.verb_timeout(verb_timeout).open().await?;
    let engine = Engine::new(Guarded::new(store, guard));
    Ok(orders().layer(SemelLayer::new(engine, Routes::new(RoutePolicy::default()))))
}

/// With keys of each caller apart, which is not its default.
pub async fn idempotent(redis: &str) -> Result<Router, Box<dyn Error>> {
    let store = ValkeyStore::with_url(redis).prefix("peer").try_build().await?;
    let layer = IdempotencyLayer::new(store)
        .scope(|parts| parts.headers.get("authorization")?.to_str().ok().map(String::from));
    Ok(orders().layer(layer))
}

/// It only works inside a session, which `POST /session` opens. Its Redis store asks for a Redis of
/// 7.4 or later, so it keeps sessions in memory here.
pub fn axum_idempotent() -> Router {
    let options = IdempotentOptions::default()
        .use_idempotency_key_header(Some("Idempotency-Key"), true)
        .expire_after(DAY_SECONDS.into());
    let cookie = CookieOptions::build().name("session").max_age(DAY_SECONDS.into()).path("/");
    let sessions = SessionLayer::new(Arc::new(MokaStore::builder().build()));
    orders()
        .layer(IdempotentLayer::<MokaStore>::new(options))
        .route("/session", post(open_session))
        .layer(sessions.with_cookie_options(cookie))
        .layer(CookieManagerLayer::new())
}

async fn open_session(session: Session<MokaStore>) -> StatusCode {
    let Ok(day) = Ttl::new(DAY_SECONDS.into()) else {
        return StatusCode::INTERNAL_SERVER_ERROR;
    };
    match session.set("user", &"bench", day, None).await {
        Ok(_) => StatusCode::CREATED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
