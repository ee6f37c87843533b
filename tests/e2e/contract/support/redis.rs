//! Stores on real Redis servers.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use semel_testserver::{Clock, Redis, RedisCluster, RedisOptions};

use super::Server;

/// How a server is started that loses nothing.
pub(crate) fn durable() -> RedisOptions {
    Redis::options().setting("appendonly", "yes").setting("appendfsync", "always")
}

/// A store of its own at an address.
pub(crate) fn store_at(url: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{url}?prefix=contract-{}:", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// A server with another clock.
fn shifted(by: i64) -> RedisOptions {
    let clock = Clock::new().expect("a clock");
    clock.shift(by).expect("another time");
    durable().clock(Arc::new(clock))
}

impl Server for Redis {
    const KIND: &str = "redis";

    fn start() -> Self {
        durable().start().expect("a server")
    }

    fn store(&self) -> String {
        store_at(&self.url())
    }

    fn shared_store() -> String {
        static SHARED: OnceLock<Redis> = OnceLock::new();
        SHARED.get_or_init(<Redis as Server>::start).store()
    }

    fn shifted_store(by: i64) -> (Box<dyn Any>, String) {
        let server = shifted(by).start().expect("a server");
        let store = server.store();
        (Box::new(server), store)
    }

    fn kill(&self) {
        self.kill().expect("a server to kill");
    }

    fn stop(&self) {
        self.stop().expect("a server to stop");
    }

    fn start_again(&self) {
        self.start_again().expect("a server");
    }

    fn pause(&self) {
        self.pause().expect("a server to freeze");
    }

    fn resume(&self) {
        self.resume().expect("a frozen server");
    }
}

/// Whatever is done to it is done to all of its servers.
impl Server for RedisCluster {
    const KIND: &str = "redis";

    fn start() -> Self {
        Self::start(3, 1, &durable().setting("cluster-node-timeout", "2000")).expect("a cluster")
    }

    fn store(&self) -> String {
        store_at(&self.url())
    }

    fn shared_store() -> String {
        static SHARED: OnceLock<RedisCluster> = OnceLock::new();
        SHARED.get_or_init(<RedisCluster as Server>::start).store()
    }

    fn shifted_store(by: i64) -> (Box<dyn Any>, String) {
        let cluster = Self::start(3, 0, &shifted(by)).expect("a cluster");
        let store = cluster.store();
        (Box::new(cluster), store)
    }

    fn kill(&self) {
        self.servers().iter().for_each(Server::kill);
    }

    fn stop(&self) {
        self.servers().iter().for_each(Server::stop);
    }

    fn start_again(&self) {
        self.servers().iter().for_each(Server::start_again);
        self.wait_until_whole().expect("a cluster");
    }

    fn pause(&self) {
        self.servers().iter().for_each(Server::pause);
    }

    fn resume(&self) {
        self.servers().iter().for_each(Server::resume);
        self.wait_until_whole().expect("a cluster");
    }
}
