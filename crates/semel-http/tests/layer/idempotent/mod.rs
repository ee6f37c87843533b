//! The layer above handlers that claim by themselves. A map stands in for the database of such a
//! handler: it is as strict as `decide`, and forgets what is not committed.

mod alike;
mod answers;
mod axum_handler;
mod early_answers;
mod executions;
mod passing;
mod refusals;

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt as _;
use semel_core::{Fence, Fingerprint, OnUnknown, Outcome, RecordId, Settlement, Timestamp};
use semel_engine::{Answer, EngineError, Stored};
use semel_http::{
    IdempotentLayer, IdempotentRequest, IdempotentService, ReplyBody, RequestBody,
    RoutePolicyBuilder, Routes,
};
use semel_store::StoreError;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tower::util::BoxCloneService;
use tower::{ServiceBuilder, ServiceExt as _};

use crate::support::{Logs, Reply, START, TestBody, until};

/// What the clock of the database says a day after [`START`].
const EXPIRES: Timestamp = Timestamp::from_millis(START.as_millis() + 86_400_000);

type Script = dyn Fn(usize) -> Response<Bytes> + Send + Sync;
type Inner = BoxCloneService<Request<RequestBody<TestBody>>, Response<ReplyBody>, Infallible>;

/// A handler that charges in a transaction, and the database it does so in.
struct Charges {
    script: Box<Script>,
    seen: Mutex<Vec<Seen>>,
    records: Mutex<HashMap<RecordId, (Fingerprint, State)>>,
    /// Whose transaction is open.
    open: Mutex<HashSet<RecordId>>,
    /// What the database fails with.
    fault: Mutex<Option<fn() -> EngineError>>,
    /// Transactions wait here before they commit.
    gate: Semaphore,
}

/// A request as the handler saw it.
struct Seen {
    attempt: Option<IdempotentRequest>,
    headers: HeaderMap,
    body: Bytes,
    was_read: bool,
}

/// What is committed under a key.
#[derive(Clone)]
enum State {
    Settled(Settlement),
    Released,
    Held,
}

/// An open transaction: dropped, it is rolled back.
struct Transaction<'a> {
    charges: &'a Charges,
    id: RecordId,
}

/// The handler under its layer.
struct Api {
    charges: Arc<Charges>,
    service: IdempotentService<Inner>,
}

impl Api {
    fn new(
        policy: RoutePolicyBuilder,
        script: impl Fn(usize) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Self::with_layer(IdempotentLayer::new(Routes::new(policy.build().unwrap())), script)
    }

    /// Answers 201 with the number of the run.
    fn counting(policy: RoutePolicyBuilder) -> Self {
        Self::new(policy, run)
    }

    fn with_layer(
        layer: IdempotentLayer,
        script: impl Fn(usize) -> Response<Bytes> + Send + Sync + 'static,
    ) -> Self {
        Logs::install();
        let charges = Arc::new(Charges {
            script: Box::new(script),
            seen: Mutex::default(),
            records: Mutex::default(),
            open: Mutex::default(),
            fault: Mutex::default(),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let handler = charges.clone();
        let handle = move |request| handler.clone().handle(request);
        let inner = BoxCloneService::new(tower::service_fn(handle));
        Self { charges, service: ServiceBuilder::new().layer(layer).service(inner) }
    }

    async fn send(&self, request: Request<TestBody>) -> Reply {
        let answer = self.service.clone().oneshot(request);
        let answer = timeout(Duration::from_mins(1), answer).await.expect("an answer");
        Reply::of(answer.unwrap()).await
    }

    /// Sends in a task of its own, and returns once its transaction waits to commit.
    async fn send_and_hold(&self, request: Request<TestBody>) -> tokio::task::JoinHandle<Reply> {
        self.charges.gate.forget_permits(Semaphore::MAX_PERMITS);
        let (service, runs) = (self.service.clone(), self.runs());
        let sent =
            tokio::spawn(async move { Reply::of(service.oneshot(request).await.unwrap()).await });
        until("the handler runs", || self.runs() > runs).await;
        sent
    }

    fn let_commit(&self) {
        self.charges.gate.add_permits(1_000);
    }

    fn runs(&self) -> usize {
        self.charges.seen.lock().unwrap().len()
    }

    fn last<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(self.charges.seen.lock().unwrap().last().expect("the handler was called"))
    }

    fn fail(&self, fault: fn() -> EngineError) {
        *self.charges.fault.lock().unwrap() = Some(fault);
    }

    /// How many records are committed.
    fn committed(&self) -> usize {
        self.charges.records.lock().unwrap().len()
    }
}

/// A 201 with the number of the run.
fn run(run: usize) -> Response<Bytes> {
    Response::builder().status(201).body(format!("run {run}").into()).unwrap()
}

impl Charges {
    async fn handle(
        self: Arc<Self>,
        request: Request<RequestBody<TestBody>>,
    ) -> Result<Response<ReplyBody>, Infallible> {
        let (parts, body) = request.into_parts();
        let (attempt, was_read) =
            (parts.extensions.get::<IdempotentRequest>().cloned(), body.was_read());
        let body = body.collect().await.unwrap().to_bytes();
        let seen = Seen { attempt: attempt.clone(), headers: parts.headers, body, was_read };
        let run = {
            let mut all = self.seen.lock().unwrap();
            all.push(seen);
            all.len()
        };
        let Some(attempt) = attempt else {
            return Ok((self.script)(run).map(Into::into));
        };
        let work = || attempt.outcome((self.script)(run));
        Ok(match self.once(&attempt, work).await {
            Ok(answer) => attempt.respond(answer),
            Err(error) => attempt.refuse(error),
        })
    }

    /// Claims, executes, settles and commits.
    async fn once(
        &self,
        attempt: &IdempotentRequest,
        work: impl FnOnce() -> Outcome,
    ) -> Result<Answer, EngineError> {
        let fault = *self.fault.lock().unwrap();
        if let Some(fault) = fault {
            return Err(fault());
        }
        let transaction = match self.claim(attempt) {
            Ok(transaction) => transaction,
            Err(answer) => return Ok(answer),
        };
        let outcome = work();
        self.gate.acquire().await.unwrap().forget();
        Ok(transaction.commit(attempt, outcome))
    }

    /// As `decide` has it: a mismatch comes first, whatever the state.
    fn claim(&self, attempt: &IdempotentRequest) -> Result<Transaction<'_>, Answer> {
        let id = attempt.id();
        let found = self.records.lock().unwrap().get(&id).cloned();
        if found.as_ref().is_some_and(|(fingerprint, _)| *fingerprint != attempt.fingerprint()) {
            return Err(Answer::Mismatch);
        }
        match found.map(|(_, state)| state) {
            Some(State::Settled(settlement)) => {
                Err(Answer::Replayed { settlement, expires: EXPIRES })
            }
            Some(State::Held) => Err(Answer::Unknown { reply: None }),
            Some(State::Released) | None if self.open.lock().unwrap().insert(id) => {
                Ok(Transaction { charges: self, id })
            }
            Some(State::Released) | None => Err(Answer::InFlight { until: EXPIRES }),
        }
    }
}

impl Transaction<'_> {
    fn commit(self, attempt: &IdempotentRequest, outcome: Outcome) -> Answer {
        let settlement = match &outcome {
            Outcome::Completed(reply) => Some(Settlement::Completed(reply.clone())),
            Outcome::Failed(reply) => Some(Settlement::Failed(reply.clone())),
            Outcome::FailedForNow(_) | Outcome::Unknown(_) => None,
        };
        let is_hold = attempt.policy().on_unknown() == OnUnknown::Hold;
        let fence = Fence::FIRST;
        let (state, answer) = match (settlement, outcome) {
            (Some(settlement), _) => {
                let state = State::Settled(settlement.clone());
                let stored = Stored::Durable;
                (state, Answer::Executed { settlement, expires: EXPIRES, fence, stored })
            }
            (None, Outcome::Unknown(reply)) if is_hold => {
                (State::Held, Answer::Unknown { reply: Some(reply) })
            }
            (None, outcome) => (State::Released, Answer::Released { outcome, fence }),
        };
        self.charges.records.lock().unwrap().insert(self.id, (attempt.fingerprint(), state));
        answer
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.charges.open.lock().unwrap().remove(&self.id);
    }
}

/// The database cannot be reached.
fn away() -> EngineError {
    StoreError::unavailable("no connection").into()
}
