//! Ordinary handlers: nothing in here knows of keys, retries or records.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// All charges that were made. It stands for a bank, but forgets them with the process.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Mutex<Vec<Charge>>>);

#[derive(Clone, Serialize)]
pub(crate) struct Charge {
    id: String,
    amount: u64,
}

#[derive(Deserialize)]
pub(crate) struct Order {
    amount: u64,
}

/// `POST /v1/charges`
pub(crate) async fn create(State(ledger): State<Ledger>, Json(order): Json<Order>) -> Response {
    if order.amount == 0 {
        return (StatusCode::UNPROCESSABLE_ENTITY, "nothing to charge\n").into_response();
    }
    let charge = ledger.charge(order.amount);
    let location = [(header::LOCATION, format!("/v1/charges/{}", charge.id))];
    (StatusCode::CREATED, location, Json(charge)).into_response()
}

/// `GET /v1/charges`
pub(crate) async fn list(State(ledger): State<Ledger>) -> Json<Vec<Charge>> {
    Json(ledger.all())
}

// === impl Ledger ===

impl Ledger {
    fn charge(&self, amount: u64) -> Charge {
        let id = format!("ch_{:016x}", rand::random::<u64>());
        let charge = Charge { id, amount };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(charge.clone());
        charge
    }

    fn all(&self) -> Vec<Charge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
