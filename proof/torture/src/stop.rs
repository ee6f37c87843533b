//! Ctrl-C and SIGTERM: the run ends early, and everything it started is ended.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};

static STOPPED: AtomicBool = AtomicBool::new(false);

/// From now on the signals do not end this process by themselves.
pub fn listen() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => (),
                _ = terminate.recv() => (),
            }
        });
        STOPPED.store(true, Ordering::SeqCst);
    });
    Ok(())
}

/// True after a signal.
pub fn is_stopped() -> bool {
    STOPPED.load(Ordering::SeqCst)
}

/// Fails once a signal has come.
pub(crate) fn check() -> anyhow::Result<()> {
    anyhow::ensure!(!is_stopped(), "stopped by a signal");
    Ok(())
}

/// Sleeps, but not on when a signal comes.
pub(crate) fn sleep(time: Duration) {
    const STEP: Duration = Duration::from_millis(50);
    let mut left = time;
    while !left.is_zero() && !is_stopped() {
        let step = left.min(STEP);
        thread::sleep(step);
        left -= step;
    }
}
