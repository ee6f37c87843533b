//! One request to the upstream.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context as _;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, DATE, HeaderMap, HeaderName, HeaderValue, SET_COOKIE};
use hyper::{Request, Response};

use super::log::EffectLog;
use super::plan::{Plan, Shares};
use crate::digest;
use crate::fleet::LEASE;
use crate::history::{Event, History, Route};

/// What all requests share.
#[derive(Debug)]
pub(super) struct Served {
    seed: u64,
    shares: Shares,
    history: History,
    log: EffectLog,
    next: AtomicU64,
    /// The latest execution of each record, to notice takeovers.
    latest: Mutex<HashMap<(u8, Route, String), Latest>>,
}

#[derive(Clone, Copy, Debug)]
struct Latest {
    gateway: usize,
    fence: u64,
    began: u64,
    /// It said that nothing happened, so its lease was handed back.
    is_released: bool,
}

/// An execution that has begun.
struct Execution {
    nonce: String,
    scope: u8,
    route: Route,
    key: String,
    fence: u64,
}

/// The parameters of a request.
struct Asked {
    gateway: usize,
    scope: u8,
    route: Route,
    key: String,
    fence: Option<u64>,
}

/// Why a request gets no answer.
#[derive(Debug)]
pub(super) struct Closed;

pub(super) async fn answer(
    served: Arc<Served>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Closed> {
    let asked = asked(&request);
    let body = request.into_body().collect().await.map_err(|_| Closed)?.to_bytes();
    let Ok(asked) = asked else {
        let mut response = Response::new(Full::from("what is this?"));
        *response.status_mut() = hyper::StatusCode::BAD_REQUEST;
        return Ok(response);
    };
    let execution = served.begin(asked, &body);
    // In a task of its own: it goes on when the gateway dies.
    let execute = tokio::spawn(async move { served.execute(execution).await });
    execute.await.map_err(|_| Closed)?.ok_or(Closed)
}

fn asked(request: &Request<Incoming>) -> anyhow::Result<Asked> {
    let mut path = request.uri().path().trim_start_matches('/').split('/');
    let gateway = path.next().context("a gateway")?.parse()?;
    let route = match path.next() {
        Some("hold") => Route::Hold,
        Some("reexecute") => Route::Reexecute,
        other => anyhow::bail!("the path {other:?}"),
    };
    let header = |name| Some(request.headers().get(name)?.to_str().ok()?.to_owned());
    let credential = header("authorization").context("a credential")?;
    let scope = credential.strip_prefix("Bearer torture-").context("a scope")?.parse()?;
    let key = header("idempotency-key").context("a key")?;
    let fence = header("idempotency-fence").and_then(|fence| fence.parse().ok());
    Ok(Asked { gateway, scope, route, key, fence })
}

/// Which body it is: 0 is the right one.
fn variant(body: &[u8]) -> u8 {
    let parsed: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let number = parsed.and_then(|body| body.get("variant")?.as_u64());
    number.and_then(|number| u8::try_from(number).ok()).unwrap_or(u8::MAX)
}

// === impl Served ===

impl Served {
    pub(super) fn new(seed: u64, shares: Shares, history: History, log: EffectLog) -> Self {
        let (next, latest) = (AtomicU64::new(1), Mutex::default());
        Self { seed, shares, history, log, next, latest }
    }

    fn begin(&self, asked: Asked, body: &[u8]) -> Execution {
        let Asked { gateway, scope, route, key, fence } = asked;
        let nonce = format!("n{}", self.next.fetch_add(1, Ordering::Relaxed));
        let begin = Event::Begin {
            nonce: nonce.clone(),
            gateway,
            scope,
            route,
            key: key.clone(),
            fence,
            variant: variant(body),
        };
        self.log.begin(begin.clone());
        let at = self.history.note(begin);
        let fence = fence.unwrap_or_default();
        self.notice_takeover(&nonce, (scope, route, key.clone()), gateway, fence, at);
        Execution { nonce, scope, route, key, fence }
    }

    fn notice_takeover(
        &self,
        nonce: &str,
        record: (u8, Route, String),
        gateway: usize,
        fence: u64,
        began: u64,
    ) {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Latest { gateway, fence, began, is_released: false };
        let Some(before) = latest.insert(record, now) else { return };
        let lease = u64::try_from(LEASE.as_micros()).unwrap_or(u64::MAX);
        // Two may begin at once, and come here in another order than their times.
        let ran_out = began.saturating_sub(before.began) >= lease / 10 * 9;
        if fence > before.fence && !before.is_released && ran_out {
            let (nonce, from, to) = (nonce.to_owned(), before.gateway, gateway);
            self.history.note(Event::Takeover { nonce, fence, from, to });
        }
    }

    /// `None` if the connection is to be closed instead of an answer: because the plan says so, or
    /// because a crash would take back what the answer says.
    async fn execute(&self, execution: Execution) -> Option<Response<Full<Bytes>>> {
        let Execution { nonce, scope, route, key, fence } = execution;
        let record = format!("{route}/{scope}/{key}");
        let plan = Plan::draw(self.seed, self.shares, &record, fence);
        if !plan.takes.is_zero() {
            tokio::time::sleep(plan.takes).await;
        }
        let status = plan.status;
        if status == 503 || status == 0 {
            let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
            let own = latest.get_mut(&(scope, route, key.clone()));
            if let Some(own) = own.filter(|latest| latest.fence == fence) {
                own.is_released = true;
            }
        }
        let reply = reply(&plan, &nonce, &super::canary(self.seed, scope), &key);
        let digest = digest_of(status, &reply);
        self.log.end(Event::End { nonce, status, digest }).await.ok()?;
        (status != 0).then(|| reply.map(Full::from))
    }
}

/// As a client should see it.
fn digest_of(status: u16, reply: &Response<Bytes>) -> String {
    let field = |(name, value): (&HeaderName, &HeaderValue)| {
        (name.as_str().to_owned(), String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let headers: Vec<_> = reply.headers().iter().map(field).collect();
    digest::of_upstream((status, &headers, reply.body()))
}

fn reply(plan: &Plan, nonce: &str, canary: &str, key: &str) -> Response<Bytes> {
    let mut body = format!("nonce={nonce} canary={canary} key={key}\n").into_bytes();
    body.extend_from_slice(&plan.filling);
    let mut response = Response::new(Bytes::from(body));
    let status = hyper::StatusCode::from_u16(plan.status);
    *response.status_mut() = status.unwrap_or(hyper::StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    // The server would add one, after the digest was made.
    headers.insert(DATE, HeaderValue::from_static("Mon, 19 Oct 2026 10:00:00 GMT"));
    add(headers, "x-effect-nonce", nonce);
    add(headers, "x-effect-part", &format!("first of {nonce}"));
    add(headers, "x-effect-part", "second");
    add(headers, SET_COOKIE.as_str(), &format!("effect={nonce}; HttpOnly"));
    add(headers, SET_COOKIE.as_str(), "other=1");
    response
}

fn add(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.append(name, value);
    }
}

impl std::fmt::Display for Closed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the connection is closed on purpose")
    }
}

impl std::error::Error for Closed {}
