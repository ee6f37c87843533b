//! Stores on PostgreSQL with copies in Redis before it.

use std::any::Any;

use semel_testserver::{Postgres, Redis};

use super::{Server, redis};

/// Both servers. Whatever is done to them is done to both.
pub(crate) struct Tiered {
    pub(crate) near: Redis,
    pub(crate) truth: Postgres,
}

/// A store of its own.
fn joined(near: &str, truth: &str) -> String {
    format!("tiered:{near}|{truth}")
}

impl Server for Tiered {
    const KIND: &str = "tiered";

    fn start() -> Self {
        Self { near: Redis::start().expect("a server"), truth: <Postgres as Server>::start() }
    }

    fn store(&self) -> String {
        joined(&redis::store_at(&self.near.url()), &self.truth.store())
    }

    fn shared_store() -> String {
        joined(&<Redis as Server>::shared_store(), &<Postgres as Server>::shared_store())
    }

    fn shifted_store(by: i64) -> (Box<dyn Any>, String) {
        // The clock of the truth counts, whatever that of the copies shows.
        let (truth, url) = <Postgres as Server>::shifted_store(by);
        (truth, joined(&<Redis as Server>::shared_store(), &url))
    }

    fn kill(&self) {
        Server::kill(&self.near);
        Server::kill(&self.truth);
    }

    fn stop(&self) {
        Server::stop(&self.near);
        Server::stop(&self.truth);
    }

    fn start_again(&self) {
        Server::start_again(&self.near);
        Server::start_again(&self.truth);
    }

    fn pause(&self) {
        Server::pause(&self.near);
        Server::pause(&self.truth);
    }

    fn resume(&self) {
        Server::resume(&self.near);
        Server::resume(&self.truth);
    }
}
