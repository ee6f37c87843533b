//! The servers that were met, so that connections outlive a change of who has what.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Options;
use crate::server::Server;
use crate::url::Endpoint;

#[derive(Debug)]
pub(super) struct Servers {
    options: Options,
    met: Mutex<BTreeMap<Endpoint, Arc<Server>>>,
}

// === impl Servers ===

impl Servers {
    pub(super) fn new(options: Options) -> Self {
        Self { options, met: Mutex::default() }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// The server at an endpoint, with the connections that there are.
    pub(super) fn get(&self, endpoint: &Endpoint) -> Arc<Server> {
        let mut met = self.met();
        if let Some(server) = met.get(endpoint) {
            return server.clone();
        }
        // The lowest that is free: so numbers stay as few as servers.
        let is_free = |number: &usize| met.values().all(|server| server.number() != *number);
        let number = (0..=met.len()).find(is_free).unwrap_or_default();
        let (dial, lanes) = (self.options.dial(), self.options.lanes);
        let server = Arc::new(Server::new(endpoint.clone(), number, dial, lanes));
        met.insert(endpoint.clone(), server.clone());
        server
    }

    /// Forgets all others: where addresses change, they would become many (I10).
    pub(super) fn keep(&self, these: &[Arc<Server>]) {
        self.met().retain(|endpoint, _| these.iter().any(|kept| kept.endpoint() == endpoint));
    }

    fn met(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Arc<Server>>> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
