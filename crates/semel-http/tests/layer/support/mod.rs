//! What the tests share: a protected API over a store on a manual clock, requests to it, and its
//! answers.

mod body;
mod counts;
mod handler;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use semel_core::{Record, State, Timestamp};
use semel_engine::{Engine, Limits};
use semel_http::{
    RouteObserver, RoutePolicy, RoutePolicyBuilder, Routes, Semel, SemelLayer, VerifyToken,
};
use semel_store::scripted::ScriptedStore;
use semel_store::{ManualClock, MemoryStore, Store};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;
use tower_layer::Layer as _;

pub(crate) use body::{BodyError, Step, TestBody};
pub(crate) use counts::Counts;
pub(crate) use handler::{Gate, Handler, HandlerError, Seen};
pub(crate) use semel_store::scripted::{Fault, Logs, Verb};

pub(crate) const LEASE: Duration = Duration::from_secs(30);
/// The clock of every store starts with the year 2026.
pub(crate) const START: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// A handler under protection.
pub(crate) struct Api {
    pub(crate) handler: Handler,
    pub(crate) store: Arc<ScriptedStore>,
    pub(crate) clock: ManualClock,
    pub(crate) engine: Engine,
    pub(crate) service: Semel<Handler>,
    layer: SemelLayer,
}

/// An answer as its client sees it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
}

pub(crate) fn policy() -> RoutePolicyBuilder {
    RoutePolicy::builder().lease(LEASE)
}

impl Api {
    /// All requests come under one policy.
    pub(crate) fn new(policy: RoutePolicyBuilder, handler: Handler) -> Self {
        Self::with_routes(Routes::new(policy.build().unwrap()), handler)
    }

    pub(crate) fn with_routes(routes: Routes, handler: Handler) -> Self {
        Self::with_limits(routes, handler, Limits::default())
    }

    pub(crate) fn with_limits(routes: Routes, handler: Handler, limits: Limits) -> Self {
        let clock = ManualClock::at(START);
        let store = Arc::new(ScriptedStore::over(MemoryStore::with_clock(Arc::new(clock.clone()))));
        Self::over(store, clock, routes, handler, limits)
    }

    /// The same API and store as another configuration, or another node, has it.
    pub(crate) fn beside(&self, policy: RoutePolicyBuilder, handler: Handler) -> Self {
        let routes = Routes::new(policy.build().unwrap());
        Self::over(self.store.clone(), self.clock.clone(), routes, handler, Limits::default())
    }

    fn over(
        store: Arc<ScriptedStore>,
        clock: ManualClock,
        routes: Routes,
        handler: Handler,
        limits: Limits,
    ) -> Self {
        let engine = engine_over(store.clone(), limits);
        let layer = SemelLayer::new(engine.clone(), routes);
        let service = layer.layer(handler.clone());
        Self { handler, store, clock, engine, service, layer }
    }

    /// The same routes and store, with another handler behind them.
    pub(crate) fn served_by(&self, handler: Handler) -> Self {
        let (store, clock, engine) = (self.store.clone(), self.clock.clone(), self.engine.clone());
        let (layer, service) = (self.layer.clone(), self.layer.layer(handler.clone()));
        Self { handler, store, clock, engine, service, layer }
    }

    /// The same knowing the store's clock.
    pub(crate) fn clocked(mut self) -> Self {
        self.layer = self.layer.clock(self.clock.clone());
        self.service = self.layer.layer(self.handler.clone());
        self
    }

    /// The same holding at most so many bytes of bodies.
    pub(crate) fn max_buffered(mut self, bytes: u64) -> Self {
        self.layer = self.layer.max_buffered(bytes);
        self.service = self.layer.layer(self.handler.clone());
        self
    }

    /// The same believing only tokens that were verified.
    pub(crate) fn verified_by(mut self, verifier: Arc<dyn VerifyToken>) -> Self {
        self.layer = self.layer.verifier(verifier);
        self.service = self.layer.layer(self.handler.clone());
        self
    }

    /// The same reporting to this observer.
    pub(crate) fn observed_by(mut self, observer: Arc<impl RouteObserver>) -> Self {
        self.layer = self.layer.observer(move |_| observer.clone());
        self.service = self.layer.layer(self.handler.clone());
        self
    }

    pub(crate) async fn try_send(&self, request: Request<TestBody>) -> Result<Reply, HandlerError> {
        let response = self.service.clone().oneshot(request).await?;
        Ok(Reply::of(response).await)
    }

    pub(crate) async fn send(&self, request: Request<TestBody>) -> Reply {
        self.try_send(request).await.unwrap()
    }

    /// Sends in a task of its own.
    pub(crate) fn spawn(&self, request: Request<TestBody>) -> JoinHandle<Reply> {
        let service = self.service.clone();
        tokio::spawn(async move { Reply::of(service.oneshot(request).await.unwrap()).await })
    }

    /// Waits until everything that was claimed is settled.
    pub(crate) async fn idle(&self) {
        until("the engine is idle", || self.engine.running() == 0).await;
    }

    /// The record that was asked for last, if it is there.
    pub(crate) async fn record(&self) -> Option<Record> {
        self.store.memory().inspect(self.store.last_claimed()?).await.unwrap()
    }

    /// The state of the record that was asked for last.
    pub(crate) async fn state(&self) -> Option<State> {
        self.record().await.map(|record| record.state)
    }
}

impl Reply {
    pub(crate) async fn of<B>(response: Response<B>) -> Self
    where
        B: http_body::Body<Data = Bytes>,
        B::Error: std::fmt::Debug,
    {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().cloned();
        let (status, headers) = (parts.status.as_u16(), parts.headers);
        Self { status, headers, body: body.to_bytes(), trailers }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn values(&self, name: &str) -> Vec<&[u8]> {
        self.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.header("x-idempotency-replayed") == Some("true")
    }

    /// It must be this problem, in all its members.
    #[track_caller]
    pub(crate) fn assert_problem(&self, status: u16, code: &str, retry_safe: bool) {
        let text = self.text();
        assert_eq!(self.status, status, "{text}");
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{text}");
        let members = [
            format!(r#""type":"https://semel.dev/problems/{code}""#),
            format!(r#""status":{status},"#),
            format!(r#""error_code":"{code}""#),
            format!(r#""retry_safe":{retry_safe}"#),
        ];
        for member in members {
            assert!(text.contains(&member), "{member} is not in {text}");
        }
        for name in ["title", "detail", "error_message"] {
            assert!(text.contains(&format!(r#""{name}":""#)), "{name} is not in {text}");
        }
    }

    #[track_caller]
    pub(crate) fn assert_retry_after(&self, expected: bool) {
        assert_eq!(self.headers.contains_key("retry-after"), expected, "{:?}", self.headers);
    }

    /// It must be the first answer once more: same status, same bytes, marked.
    #[track_caller]
    pub(crate) fn assert_replays(&self, first: &Self) {
        assert!(self.is_replayed(), "{self:?}");
        assert_eq!((self.status, &self.body), (first.status, &first.body));
    }
}

/// An engine whose log lines are captured: see [`Logs::install`].
pub(crate) fn engine_over(store: impl Store, limits: Limits) -> Engine {
    Logs::install();
    Engine::with_limits(store, limits)
}

/// The same over a store of its own.
pub(crate) fn engine() -> Engine {
    engine_over(MemoryStore::new(), Limits::default())
}

/// Adds a header field.
pub(crate) trait With: Sized {
    fn headers(&mut self) -> &mut HeaderMap;

    fn with(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
        self.headers().append(HeaderName::from_static(name), value);
        self
    }
}

impl<B> With for Request<B> {
    fn headers(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}

impl<B> With for Response<B> {
    fn headers(&mut self) -> &mut HeaderMap {
        self.headers_mut()
    }
}

/// A request without a key.
pub(crate) fn keyless(method: &str, path: &str, body: impl Into<TestBody>) -> Request<TestBody> {
    Request::builder().method(method).uri(path).body(body.into()).unwrap()
}

/// `POST /charges` with a key.
pub(crate) fn charge(key: &str, body: impl Into<TestBody>) -> Request<TestBody> {
    keyless("POST", "/charges", body).with("idempotency-key", key)
}

/// Waits until something becomes true, which must happen within a minute.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "never happened: {what}");
}
