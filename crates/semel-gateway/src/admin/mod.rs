//! The admin address: is it alive, is it ready, what has it counted.
//!
//! Tools for operators get their paths in `answer`.

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
use semel_store::{Health, Store};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::server::Workers;

/// How many may look at the same time.
const CONNECTIONS_MAX: usize = 64;
/// How long one may stay, and then still take to read its last answer.
const STAY: Duration = Duration::from_mins(1);
const FAREWELL: Duration = Duration::from_secs(10);
/// How long the store may take to say that it is well: longer than its guard lets it, so that the
/// guard learns of it, and the reason is known here.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(3);

/// What the admin address looks at.
#[derive(Clone)]
pub(crate) struct View {
    pub(crate) engine: Engine<Arc<dyn Store>>,
    pub(crate) workers: Weak<Workers>,
    pub(crate) draining: CancellationToken,
    pub(crate) metrics: Metrics,
}

/// Serves the admin address until the gateway is gone: while it drains, it says so.
pub(crate) async fn serve(listener: TcpListener, view: View, closing: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = closing.cancelled() => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Ok(place) = places.clone().try_acquire_owned() else { continue };
        let (view, closing) = (view.clone(), closing.clone());
        tokio::spawn(async move {
            tokio::select! { () = attend(stream, view) => {}, () = closing.cancelled() => {} }
            drop(place);
        });
    }
}

/// Serves one connection for as long as it may stay: there are few places.
async fn attend(stream: TcpStream, view: View) {
    let service = service_fn(|request| {
        let view = view.clone();
        async move { Ok::<_, Infallible>(answer(request, &view).await) }
    });
    let mut connection = pin!(
        http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(Duration::from_secs(10))
            .max_buf_size(16 * 1024)
            .serve_connection(TokioIo::new(stream), service)
    );
    if timeout(STAY, connection.as_mut()).await.is_err() {
        connection.as_mut().graceful_shutdown();
        // Whether it took its answer is its own affair.
        let _ = timeout(FAREWELL, connection).await;
    }
}

async fn answer(request: Request<Incoming>, view: &View) -> Response<Full<Bytes>> {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n");
    }
    match request.uri().path() {
        "/health" => text(StatusCode::OK, "alive\n"),
        "/ready" => view.ready().await,
        "/metrics" => view.render(),
        _ => text(StatusCode::NOT_FOUND, "here are /health, /ready and /metrics\n"),
    }
}

// === impl View ===

impl View {
    async fn ready(&self) -> Response<Full<Bytes>> {
        if self.draining.is_cancelled() {
            return text(StatusCode::SERVICE_UNAVAILABLE, "draining\n");
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
        let text_of = self.metrics.render(&metrics::Now {
            executions: self.engine.running(),
            waiters: self.engine.waiting(),
            connections,
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
