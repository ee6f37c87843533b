//! A small payments API without idempotency: each request takes effect.
//!
//! | request | answers |
//! |---|---|
//! | `POST /v1/charges` | 201, 400, 402, 500 (with `--failure-rate`) |
//! | `POST /v1/charges/{id}/refunds` | 201, 400, 404, 409 |
//! | `GET /v1/charges`, `GET /v1/charges/{id}`, `GET /ledger` | 200, 404 |

mod api;
mod input;
mod ledger;
mod server;

pub(crate) use ledger::Totals;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::watch;

use ledger::Ledger;

/// The API. Clones share one ledger.
#[derive(Clone)]
pub(crate) struct Payments {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Mutex<Ledger>,
    behaviour: Mutex<Behaviour>,
    /// How many charges have begun.
    begun: watch::Sender<u64>,
}

/// How it behaves.
#[derive(Clone, Copy)]
pub(crate) struct Behaviour {
    /// How long the bank takes to charge a card.
    pub(crate) delay: Duration,
    /// How often it answers 500, before anything is charged: from 0 to 1.
    pub(crate) failure_rate: f64,
}

// === impl Payments ===

impl Payments {
    pub(crate) fn new(behaviour: Behaviour) -> Self {
        let shared = Shared {
            ledger: Mutex::default(),
            behaviour: Mutex::new(behaviour),
            begun: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Serves in the background, for as long as the runtime lives.
    pub(crate) fn serve(&self, listener: TcpListener) -> std::io::Result<SocketAddr> {
        let address = listener.local_addr()?;
        tokio::spawn(server::serve(self.clone(), listener));
        Ok(address)
    }

    /// Behaves differently from now on.
    pub(crate) fn set_behaviour(&self, behaviour: Behaviour) {
        *lock(&self.shared.behaviour) = behaviour;
    }

    pub(crate) fn behaviour(&self) -> Behaviour {
        *lock(&self.shared.behaviour)
    }

    /// The number of charges that have begun.
    pub(crate) fn begun(&self) -> watch::Receiver<u64> {
        self.shared.begun.subscribe()
    }

    pub(crate) fn totals(&self) -> Totals {
        self.ledger().totals()
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.shared.ledger)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
