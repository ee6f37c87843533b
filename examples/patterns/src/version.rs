//! Optimistic locking: `ETag` and `If-Match`.
//!
//! `GET` returns the version of a document. `PUT` must name the version that it replaces, and replaces that one or
//! nothing. So of two clients that have read the same version, one wins; and a `PUT` that is sent twice takes effect
//! once. But its second response is `412 Precondition Failed`, though the first was a success: see the guide for the
//! client's options.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use serde_json::Value;
use tokio_postgres::{Client, Error};

/// `GET` and `PUT` for `/documents/{id}`.
pub fn router(client: Arc<Client>) -> Router {
    Router::new().route("/documents/{id}", get(read).put(replace)).with_state(client)
}

const READ: &str = "SELECT version, content FROM documents WHERE id = $1";

/// Compares and changes in one step.
const REPLACE: &str = "UPDATE documents SET content = $3, version = version + 1
                       WHERE id = $1 AND version = $2 RETURNING version";

async fn read(State(client): State<Arc<Client>>, Path(id): Path<String>) -> Response {
    if id.contains('\0') {
        return StatusCode::NOT_FOUND.into_response();
    }
    match client.query_opt(READ, &[&id]).await {
        Ok(Some(row)) => (etag(row.get(0)), Json(row.get::<_, Value>(1))).into_response(),
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => failed(&error),
    }
}

async fn replace(
    State(client): State<Arc<Client>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Json(content): Json<Value>,
) -> Response {
    let Some(wanted) = headers.get(header::IF_MATCH) else {
        return (
            StatusCode::PRECONDITION_REQUIRED,
            "say with If-Match which version you replace\n",
        )
            .into_response();
    };
    if id.contains('\0') {
        return StatusCode::NOT_FOUND.into_response();
    }
    if has_nul(&content) {
        return (StatusCode::UNPROCESSABLE_ENTITY, "a text is without U+0000\n").into_response();
    }
    // What is no version of ours matches none.
    let wanted = wanted.to_str().ok().and_then(version_of).unwrap_or(0);
    match client.query_opt(REPLACE, &[&id, &wanted, &content]).await {
        Ok(Some(row)) => (etag(row.get(0)), Json(content)).into_response(),
        Ok(None) => refused(&client, &id).await,
        Err(error) => failed(&error),
    }
}

/// Returns the current content instead, so that the client can compare.
async fn refused(client: &Client, id: &str) -> Response {
    match client.query_opt(READ, &[&id]).await {
        Ok(Some(row)) => {
            let there = Json(row.get::<_, Value>(1));
            (StatusCode::PRECONDITION_FAILED, etag(row.get(0)), there).into_response()
        }
        Ok(None) => StatusCode::NOT_FOUND.into_response(),
        Err(error) => failed(&error),
    }
}

fn etag(version: i64) -> [(header::HeaderName, String); 1] {
    [(header::ETAG, format!("\"{version}\""))]
}

fn version_of(tag: &str) -> Option<i64> {
    tag.strip_prefix('"')?.strip_suffix('"')?.parse().ok()
}

/// The database has no text with this character, and would refuse it again and again.
fn has_nul(content: &Value) -> bool {
    match content {
        Value::String(text) => text.contains('\0'),
        Value::Array(list) => list.iter().any(has_nul),
        Value::Object(fields) => {
            fields.iter().any(|(name, value)| name.contains('\0') || has_nul(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// If the connection breaks, it is unknown whether the statement took effect: the client retries.
fn failed(_error: &Error) -> Response {
    StatusCode::SERVICE_UNAVAILABLE.into_response()
}
