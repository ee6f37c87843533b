//! The known servers, so that their connections outlive a change of the topology.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Options;
use crate::server::Server;
use crate::url::Endpoint;

#[derive(Debug)]
pub(super) struct Servers {
    options: Options,
    known: Mutex<BTreeMap<Endpoint, Arc<Server>>>,
}

// === impl Servers ===

impl Servers {
    pub(super) fn new(options: Options) -> Self {
        Self { options, known: Mutex::default() }
    }

    pub(super) fn options(&self) -> &Options {
        &self.options
    }

    /// The server at an endpoint, with its open connections.
    pub(super) fn get(&self, endpoint: &Endpoint) -> Arc<Server> {
        let mut known = self.known();
        if let Some(server) = known.get(endpoint) {
            return server.clone();
        }
        // The lowest free number, so that numbers stay as few as servers.
        let is_free = |number: &usize| known.values().all(|server| server.number() != *number);
        let number = (0..=known.len()).find(is_free).unwrap_or_default();
        let (connector, pool_max) = (self.options.connector(), self.options.pool_max);
        let server = Arc::new(Server::new(endpoint.clone(), number, connector, pool_max));
        known.insert(endpoint.clone(), server.clone());
        server
    }

    /// Forgets all others: where addresses change, they would accumulate (I10).
    pub(super) fn keep(&self, these: &[Arc<Server>]) {
        self.known().retain(|endpoint, _| these.iter().any(|kept| kept.endpoint() == endpoint));
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Arc<Server>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
