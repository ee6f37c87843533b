//! Stores on a real Redis server.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_testserver::Redis;

/// A store of its own on the server that all tests share, which nobody stops.
pub(crate) fn shared() -> String {
    static SHARED: OnceLock<Redis> = OnceLock::new();
    let server = SHARED.get_or_init(|| durable().expect("a shared Redis server"));
    store_on(server)
}

/// A server that loses nothing.
pub(crate) fn durable() -> Result<Redis, semel_testserver::Error> {
    Redis::options().setting("appendonly", "yes").setting("appendfsync", "always").start()
}

/// A store of its own on a server.
pub(crate) fn store_on(server: &Redis) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}?prefix=contract-{}:", server.url(), NEXT.fetch_add(1, Ordering::Relaxed))
}
