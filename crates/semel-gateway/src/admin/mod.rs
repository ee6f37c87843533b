//! The admin address: liveness, readiness and metrics.
//!
//! Paths for operators' tools belong in `answer`.

mod metrics;

pub use metrics::Metrics;

use std::convert::Infallible;
use std::pin::pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use semel_engine::Engine;
use semel_store::Health;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::pipeline::CurrentPipeline;
use crate::proxy::permits::UpstreamPermits;
use crate::server::Workers;

/// How long a connection may be open, and how long its last response may take after that.
const CONNECTION_TIME_MAX: Duration = Duration::from_mins(1);
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The time limit of a health check of the store. It is longer than the guard's, so that the guard times out first and
/// reports the reason.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// The state that the admin address reports.
#[derive(Clone)]
pub(crate) struct AdminState {
    pub(crate) engine: Engine,
    pub(crate) workers: Weak<Workers>,
    pub(crate) permits: Arc<UpstreamPermits>,
    pub(crate) pipeline: Arc<CurrentPipeline>,
    pub(crate) draining: CancellationToken,
    pub(crate) metrics: Metrics,
}

/// Serves the admin address until shutdown has completed, `connections_max` connections at a time. `/ready` reports a
/// gateway that drains.
pub(crate) async fn serve(
    listener: TcpListener,
    state: AdminState,
    connections_max: usize,
    closing: CancellationToken,
) {
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(permit) = permits.clone().try_acquire_owned() else { continue };
        let (state, closing) = (state.clone(), closing.clone());
        tokio::spawn(async move {
            tokio::select! { () = serve_connection(stream, state) => {}, () = closing.cancelled() => {} }
            drop(permit);
        });
    }
}

/// Serves one connection, for a limited time: there are few permits.
async fn serve_connection(stream: TcpStream, state: AdminState) {
    let service = service_fn(|request| {
        let state = state.clone();
        async move { Ok::<_, Infallible>(answer(request, &state).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), service)
    );
    if timeout(CONNECTION_TIME_MAX, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // The client need not take its response.
        let _ = timeout(CLOSE_TIMEOUT, connection).await;
    }
}

async fn answer(request: Request<Incoming>, state: &AdminState) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
    }
    match request.uri().path() {
        "/health" => text(StatusCode::OK, "alive\n"),
        "/ready" => state.ready().await,
        "/metrics" => state.render(),
        _ => text(StatusCode::NOT_FOUND, "here are /health, /ready and /metrics\n"),
    }
}

// === impl AdminState ===

impl AdminState {
    async fn ready(&self) -> Response<Full<Bytes>> {
        if self.draining.is_cancelled() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
        }
        if self.pipeline.load().tokens.as_ref().is_some_and(|tokens| !tokens.is_ready()) {
            let why = "the keys of tokens could not be read yet; the log says why\n";
            return text(StatusCode::SERVICE_UNAVAILABLE, why);
        }
        match timeout(HEALTH_TIMEOUT, self.engine.store().health()).await {
            Ok(Ok(Health { note: Some(note), .. })) => {
                text(StatusCode::OK, format!("ready, but {note}\n"))
            }
            Ok(Ok(_)) => text(StatusCode::OK, "ready\n"),
            Ok(Err(error)) => {
                text(StatusCode::SERVICE_UNAVAILABLE, format!("the store is not ready: {error}\n"))
            }
            Err(_) => text(StatusCode::SERVICE_UNAVAILABLE, "the store does not answer\n"),
        }
    }

    fn render(&self) -> Response<Full<Bytes>> {
        let connections = self.workers.upgrade().map_or(0, |workers| workers.connections());
        let text_of = self.metrics.render(&metrics::Gauges {
            executions: self.engine.running(),
            waiters: self.engine.waiting(),
            connections,
            upstream_connections: self.permits.taken(),
            upstream_waiters: self.permits.waiting(),
        });
        text(StatusCode::OK, text_of)
    }
}

fn text(status: StatusCode, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body.into()));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, plain);
    response
}
