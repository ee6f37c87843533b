//! What the tests share: the binary, an upstream with a script, a client, and waiting with limits.

mod call;
mod command;
#[cfg(feature = "postgres")]
mod database;
mod gate;
mod gateway;
mod message;
mod metrics;
mod mount;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server;
mod setup;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod tiered;
mod upstream;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

pub(crate) use call::{Answer, Call, Pending};
pub(crate) use command::{Ended, semel};
#[cfg(feature = "postgres")]
pub(crate) use database::Database;
pub(crate) use gate::Gate;
pub(crate) use gateway::Gateway;
pub(crate) use metrics::Metrics;
pub(crate) use mount::Mount;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) use server::Server;
pub(crate) use setup::Setup;
#[cfg(all(feature = "postgres", feature = "redis"))]
pub(crate) use tiered::Tiered;
pub(crate) use upstream::{Reply, Seen, Upstream};

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The moment.
#[expect(clippy::disallowed_methods, reason = "real processes live in real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Waits until `seen` gives something.
pub(crate) fn eventually<T>(what: &str, mut seen: impl FnMut() -> Option<T>) -> T {
    let deadline = now() + PATIENCE;
    loop {
        if let Some(found) = seen() {
            return found;
        }
        assert!(now() < deadline, "never happened: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the load when it is dropped, also by a panic: a scope waits for its threads.
pub(crate) struct Over<'a>(pub(crate) &'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` in `count` threads that start together; what they gave, in their order.
pub(crate) fn at_once<T: Send>(count: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count);
    let (barrier, work) = (&barrier, &work);
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                scope.spawn(move || {
                    barrier.wait();
                    work(number)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().expect("a client")).collect()
    })
}
