//! The bank over HTTP.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::{Response, StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use semel_http::{IdempotentLayer, IdempotentRequest, Preset, Profile, RoutePolicy, Routes};
use semel_postgres::transaction::{TransactionPool, Tx, Work, WorkFuture};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::bank::{self, Stop};
use crate::reader::Reader;
use crate::refusal::Refusal;

/// What the handlers work with.
#[derive(Debug)]
pub(crate) struct Bank {
    pub(crate) pool: TransactionPool,
    pub(crate) reader: Reader,
}

/// All routes, with the layer around them.
pub(crate) fn app(bank: Bank, profile: Profile) -> anyhow::Result<Router> {
    let policy = RoutePolicy::builder().profile(profile).preset(Preset::Payments).build()?;
    let mut routes = Routes::new(policy.clone());
    routes.add("POST /accounts", policy.clone())?;
    routes.add("POST /transfers", policy)?;
    Ok(Router::new()
        .route("/accounts", post(open_account))
        .route("/accounts/{id}", get(account))
        .route("/transfers", post(make_transfer))
        .route("/transfers/{id}", get(transfer))
        .route("/health", get(health))
        .with_state(Arc::new(bank))
        // Last, so that it is around everything above.
        .layer(IdempotentLayer::new(routes).namespace("transfers")))
}

async fn open_account(
    State(bank): State<Arc<Bank>>,
    Extension(attempt): Extension<IdempotentRequest>,
    body: Bytes,
) -> impl IntoResponse {
    bank.once(&attempt, |work| {
        let (attempt, opening) = (attempt.clone(), read(&body));
        Box::pin(async move {
            let opened = match opening {
                Ok(opening) => bank::open(work, opening).await,
                Err(refusal) => Err(refusal.into()),
            };
            let made = opened.map(|account| (format!("/accounts/{}", account.id), account));
            Ok(attempt.outcome(answer(made)?))
        })
    })
    .await
}

async fn make_transfer(
    State(bank): State<Arc<Bank>>,
    Extension(attempt): Extension<IdempotentRequest>,
    body: Bytes,
) -> impl IntoResponse {
    bank.once(&attempt, |work| {
        let (attempt, order) = (attempt.clone(), read(&body));
        Box::pin(async move {
            let made = match order {
                Ok(order) => bank::transfer(work, attempt.id(), order).await,
                Err(refusal) => Err(refusal.into()),
            };
            let made = made.map(|transfer| (format!("/transfers/{}", transfer.id), transfer));
            Ok(attempt.outcome(answer(made)?))
        })
    })
    .await
}

/// Also what cannot be read is refused in the transaction: one key has one answer.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refusal> {
    serde_json::from_slice(body).map_err(|error| Refusal::Invalid(error.to_string()))
}

/// The response for what was made, at its location, or for a refusal.
fn answer(
    made: Result<(String, impl Serialize), Stop>,
) -> Result<Response<String>, semel_postgres::transaction::BoxError> {
    let (location, made) = match made {
        Ok(made) => made,
        Err(Stop::Refused(refusal)) => return Ok(refusal.response()),
        Err(Stop::Failed(error)) => return Err(error),
    };
    let response = Response::builder()
        .status(StatusCode::CREATED)
        .header(header::LOCATION, location)
        .header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(serde_json::to_string(&made)?)?)
}

async fn account(State(bank): State<Arc<Bank>>, Path(id): Path<String>) -> impl IntoResponse {
    found(bank.reader.account(&id).await)
}

async fn transfer(State(bank): State<Arc<Bank>>, Path(id): Path<String>) -> impl IntoResponse {
    found(bank.reader.transfer(&id).await)
}

async fn health(State(bank): State<Arc<Bank>>) -> impl IntoResponse {
    found(bank.reader.health().await.map(|()| Some(serde_json::json!({ "status": "ok" }))))
}

fn found<T: Serialize>(looked_up: anyhow::Result<Option<T>>) -> axum::response::Response {
    match looked_up {
        Ok(Some(it)) => Json(it).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => {
            tracing::warn!(%error, "the database cannot be read");
            StatusCode::SERVICE_UNAVAILABLE.into_response()
        }
    }
}

// === impl Bank ===

impl Bank {
    /// Claims, works, settles and commits; then answers.
    async fn once<W>(&self, attempt: &IdempotentRequest, work: W) -> axum::response::Response
    where
        W: for<'w> FnMut(&'w mut Work<'_, Tx>) -> WorkFuture<'w> + Send,
    {
        let policy = attempt.policy();
        match self.pool.once(attempt.id(), attempt.fingerprint(), policy, work).await {
            Ok(answer) => attempt.respond(answer).into_response(),
            Err(error) => attempt.refuse(error.into_store_error()).into_response(),
        }
    }
}
