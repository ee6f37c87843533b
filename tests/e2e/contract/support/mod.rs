//! What the tests share besides the harness: configurations, servers, and what is done at once.

#[cfg(feature = "postgres")]
mod database;
mod mount;
#[cfg(feature = "redis")]
pub(crate) mod redis;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod server;
mod setup;
#[cfg(all(feature = "postgres", feature = "redis"))]
mod tiered;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

pub(crate) use semel_testkit::{
    Answer, Call, Ended, Fields, Gate, Gateway, Pending, Reply, Seen, Upstream, eventually, now,
};

#[cfg(feature = "postgres")]
pub(crate) use database::Database;
pub(crate) use mount::Mount;
#[cfg(any(feature = "postgres", feature = "redis"))]
pub(crate) use server::Server;
pub(crate) use setup::{Setup, store_kind};
#[cfg(all(feature = "postgres", feature = "redis"))]
pub(crate) use tiered::Tiered;

const SEMEL: &str = env!("CARGO_BIN_EXE_semel");

/// The program.
#[cfg(feature = "postgres")]
pub(crate) fn semel(arguments: &[&str]) -> std::process::Command {
    semel_testkit::semel(SEMEL, arguments)
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
