//! Ctrl-C and SIGTERM: the run ends between two steps, so that every process it started is ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::ensure;
use tokio::signal::unix::{Signal, SignalKind, signal};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on the signals do not end this process by themselves.
pub(crate) fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (interrupt, terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(either(interrupt, terminate));
        STOPPED.store(true, Ordering::SeqCst);
    });
    Ok(())
}

async fn either(mut one: Signal, mut other: Signal) {
    tokio::select! {
        _ = one.recv() => (),
        _ = other.recv() => (),
    }
}

/// Fails once a signal has come.
pub(crate) fn check() -> anyhow::Result<()> {
    ensure!(!STOPPED.load(Ordering::SeqCst), "stopped by a signal");
    Ok(())
}
