//! What the tests share besides the harness: raw clients, HTTP/2, certificates, and gateways with their tables.

mod certificates;
mod client;
mod gateway;
mod http2;
mod requests;

use std::time::{Duration, Instant};

pub(crate) use certificates::Authority;
pub(crate) use client::Client;
pub(crate) use gateway::Gateway;
pub(crate) use http2::Http2;
pub(crate) use requests::{get, post, put, with_body};
pub(crate) use semel_testkit::{After, Answer, Framing, Gate, Line, Seen, Upstream, answer};
use semel_testkit::{eventually_within, now};

/// How long anything may take before a test fails.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// Measures how long something takes.
#[derive(Clone, Copy)]
pub(crate) struct Watch(Instant);

/// Looks until `look` finds something.
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    eventually_within(LIMIT, what, look)
}

/// Waits until the other side's system knows that all connections to an upstream are closed: what closes a
/// connection travels, and on a busy machine what was sent later on another may overtake it.
pub(crate) fn wait_until_closed(upstream: &Upstream) {
    let remote = format!(" 0100007F:{:04X} 01 ", upstream.address().port());
    eventually("the upstream's connections are closed", || {
        let sockets = std::fs::read_to_string("/proc/net/tcp").unwrap();
        (upstream.open_connections() == 0 && !sockets.contains(&remote)).then_some(())
    });
}

// === impl Watch ===

impl Watch {
    pub(crate) fn start() -> Self {
        Self(now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }

    /// Waits until this much time has passed since the start.
    pub(crate) fn reach(self, elapsed: Duration) {
        std::thread::sleep(elapsed.saturating_sub(self.elapsed()));
    }
}
