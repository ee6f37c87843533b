//! Requests and answers.

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use serde::Serialize;
use serde_json::json;

use super::Payments;
use super::input::{NewCharge, NewRefund};
use super::ledger::{AMOUNT_MAX, Entry, Refused};

/// A longer body is no order.
const BODY_MAX: usize = 16 << 10;

type Answer = Response<Full<Bytes>>;
/// An answer, or an error that becomes one.
type Outcome = Result<Answer, Problem>;

/// A charge and its refunds.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    entry: &'a Entry,
    refunded: u64,
}

struct Problem {
    status: StatusCode,
    error: &'static str,
    message: String,
}

// === impl Payments ===

impl Payments {
    pub(super) async fn answer(&self, request: Request<Incoming>) -> Answer {
        self.route(request).await.unwrap_or_else(Problem::into_answer)
    }

    async fn route(&self, request: Request<Incoming>) -> Outcome {
        let path = request.uri().path().to_owned();
        let segments: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        match (request.method(), segments.as_slice()) {
            (&Method::POST, ["v1", "charges"]) => self.charge(request).await,
            (&Method::POST, ["v1", "charges", id, "refunds"]) => self.refund(id, request).await,
            (&Method::GET, ["v1", "charges"]) => Ok(self.list()),
            (&Method::GET, ["v1", "charges", id]) => self.show(id),
            (&Method::GET, ["ledger"]) => Ok(self.whole_ledger()),
            (_, ["v1", "charges"] | ["v1", "charges", ..] | ["ledger"]) => {
                let status = StatusCode::METHOD_NOT_ALLOWED;
                Err(Problem::new(status, "method_not_allowed", "try GET or POST"))
            }
            _ => {
                let message = "here are /v1/charges, /v1/charges/{id}/refunds and /ledger";
                Err(Problem::new(StatusCode::NOT_FOUND, "not_found", message))
            }
        }
    }

    async fn charge(&self, request: Request<Incoming>) -> Outcome {
        let fence = fence(request.headers());
        let new = NewCharge::parse(&read(request).await?).map_err(Problem::invalid)?;
        self.shared.begun.send_modify(|begun| *begun += 1);
        let behaviour = self.behaviour();
        tokio::time::sleep(behaviour.delay).await;
        if rand::random_bool(behaviour.failure_rate) {
            let message = "the bank did not answer; nothing was charged";
            return Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "bank_down", message));
        }
        let entry = self.ledger().charge(new, fence)?;
        Ok(created(&entry, &format!("/v1/charges/{}", entry.id)))
    }

    async fn refund(&self, id: &str, request: Request<Incoming>) -> Outcome {
        let fence = fence(request.headers());
        let new = NewRefund::parse(&read(request).await?).map_err(Problem::invalid)?;
        let entry = self.ledger().refund(id, &new, fence)?;
        Ok(created(&entry, &format!("/v1/charges/{id}/refunds/{}", entry.id)))
    }

    fn list(&self) -> Answer {
        let ledger = self.ledger();
        let charges: Vec<_> = ledger.charges().map(line).collect();
        lines(StatusCode::OK, "", "charges", &charges)
    }

    fn show(&self, id: &str) -> Outcome {
        let ledger = self.ledger();
        let entry = ledger.charges().find(|entry| entry.id == id).ok_or(Refused::NoSuchCharge)?;
        let charge = Shown { entry, refunded: ledger.refunded(id) };
        Ok(answer(StatusCode::OK, line(&charge)))
    }

    /// One entry a line: people read it.
    fn whole_ledger(&self) -> Answer {
        let ledger = self.ledger();
        let entries: Vec<_> = ledger.entries().iter().map(line).collect();
        let totals = format!("\"total\":{},", json!(ledger.totals().to_string()));
        lines(StatusCode::OK, &totals, "entries", &entries)
    }
}

// === impl Problem ===

impl Problem {
    fn new(status: StatusCode, error: &'static str, message: impl Into<String>) -> Self {
        Self { status, error, message: message.into() }
    }

    fn invalid(message: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request", message)
    }

    fn into_answer(self) -> Answer {
        answer(self.status, line(&json!({ "error": self.error, "message": self.message })))
    }
}

impl From<Refused> for Problem {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::TooMuch => Self::new(
                StatusCode::PAYMENT_REQUIRED,
                "card_declined",
                format!("the card is good for {AMOUNT_MAX} at most"),
            ),
            Refused::NoSuchCharge => {
                Self::new(StatusCode::NOT_FOUND, "no_such_charge", "there is no such charge")
            }
            Refused::OverRefunded { left } => Self::new(
                StatusCode::CONFLICT,
                "over_refunded",
                format!("only {left} of the charge is left"),
            ),
            Refused::Full => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, "ledger_full", "the ledger is full")
            }
        }
    }
}

async fn read(request: Request<Incoming>) -> Result<Bytes, Problem> {
    match Limited::new(request.into_body(), BODY_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(Problem::invalid(format!("the body cannot be read: {error}"))),
    }
}

fn fence(headers: &HeaderMap) -> Option<u64> {
    headers.get("idempotency-fence")?.to_str().ok()?.parse().ok()
}

fn created(entry: &Entry, location: &str) -> Answer {
    let mut response = answer(StatusCode::CREATED, line(entry));
    if let Ok(location) = HeaderValue::try_from(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Answers end with a line break, so that a shell's prompt is not glued to them.
fn line(value: &impl Serialize) -> String {
    // These are names and numbers: there is always a JSON for them.
    serde_json::to_string(value).unwrap_or_default() + "\n"
}

fn lines(status: StatusCode, before: &str, name: &str, entries: &[String]) -> Answer {
    let entries = entries.concat().trim_end().replace('\n', ",\n ");
    answer(status, format!("{{{before}\"{name}\":[\n {entries}\n]}}\n"))
}

fn answer(status: StatusCode, body: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
