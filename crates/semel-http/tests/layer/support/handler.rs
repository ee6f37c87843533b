use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response, Uri};
use http_body_util::BodyExt as _;
use semel_http::RequestBody;
use tokio::sync::Semaphore;
use tower_service::Service;

use super::{TestBody, until};

/// The service under the layer: notes what it sees, and answers by its script.
#[derive(Clone)]
pub(crate) struct Handler {
    script: Arc<Script>,
    gate: Option<Gate>,
    yields: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
}

/// A request as the handler saw it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: Option<HeaderMap>,
    /// The number of this run, from 1.
    pub(crate) run: usize,
}

/// What a service may fail with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no connection")]
pub(crate) struct HandlerError;

/// Holds executions back until it is opened.
#[derive(Clone)]
pub(crate) struct Gate(Arc<Semaphore>);

pub(crate) type Answer = Result<Response<TestBody>, HandlerError>;
type Script = dyn Fn(&Seen) -> Answer + Send + Sync;

impl Handler {
    pub(crate) fn new(script: impl Fn(&Seen) -> Answer + Send + Sync + 'static) -> Self {
        Self { script: Arc::new(script), gate: None, yields: 0, seen: Arc::default() }
    }

    /// Answers 201 with the number of the run.
    pub(crate) fn counting() -> Self {
        Self::answering(201)
    }

    /// Answers this status with the number of the run.
    pub(crate) fn answering(status: u16) -> Self {
        Self::replying(move |seen| {
            let body = TestBody::from(format!("run {}", seen.run));
            Response::builder().status(status).body(body).unwrap()
        })
    }

    pub(crate) fn replying(
        script: impl Fn(&Seen) -> Response<TestBody> + Send + Sync + 'static,
    ) -> Self {
        Self::new(move |seen| Ok(script(seen)))
    }

    /// The same, but the first run waits until the gate is opened.
    pub(crate) fn gated(mut self) -> (Self, Gate) {
        let gate = Gate(Arc::new(Semaphore::new(0)));
        self.gate = Some(gate.clone());
        (self, gate)
    }

    /// The same, but it takes so many polls.
    pub(crate) fn yielding(mut self, times: usize) -> Self {
        self.yields = times;
        self
    }

    pub(crate) fn runs(&self) -> usize {
        self.seen.lock().unwrap().len()
    }

    /// The request of the latest run.
    pub(crate) fn last(&self) -> Seen {
        self.seen.lock().unwrap().last().cloned().expect("the handler was called")
    }

    /// Forgets all that it saw.
    pub(crate) fn forget(&self) {
        self.seen.lock().unwrap().clear();
    }

    /// Waits until it has been called so many times.
    pub(crate) async fn started(&self, runs: usize) {
        until("the handler was called", || self.runs() >= runs).await;
    }

    fn note(&self, parts: http::request::Parts, body: Bytes, trailers: Option<HeaderMap>) -> Seen {
        let mut all = self.seen.lock().unwrap();
        let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
        let seen = Seen { method, uri, headers, body, trailers, run: all.len() + 1 };
        all.push(seen.clone());
        seen
    }
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Gate {
    pub(crate) fn open(&self) {
        self.0.close();
    }

    async fn passed(&self) {
        assert!(self.0.acquire().await.is_err(), "only closing the semaphore opens the gate");
    }
}

impl Service<Request<RequestBody<TestBody>>> for Handler {
    type Response = Response<TestBody>;
    type Error = HandlerError;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), HandlerError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody<TestBody>>) -> Self::Future {
        let handler = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(|_| HandlerError)?;
            let trailers = body.trailers().cloned();
            let seen = handler.note(parts, body.to_bytes(), trailers);
            if let Some(gate) = handler.gate.as_ref().filter(|_| seen.run == 1) {
                gate.passed().await;
            }
            for _ in 0..handler.yields {
                tokio::task::yield_now().await;
            }
            (handler.script)(&seen)
        })
    }
}
