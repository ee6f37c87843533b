//! Named threads of the store, and how they are stopped.

use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::OpenError;

/// A background thread that is asked to stop, and joined, when this is dropped.
pub(crate) struct Worker {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Asks a thread to stop.
#[derive(Default)]
pub(crate) struct Stop {
    is_requested: Mutex<bool>,
    changed: Condvar,
}

// === impl Worker ===

impl Worker {
    pub(crate) fn spawn(
        name: &str,
        path: &Path,
        run: impl FnOnce(&Stop) + Send + 'static,
    ) -> Result<Self, OpenError> {
        let stop = Arc::new(Stop::default());
        let its_stop = Arc::clone(&stop);
        let thread = spawn(name, path, move || run(&its_stop))?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has logged it.
            let _ = thread.join();
        }
    }
}

// === impl Stop ===

impl Stop {
    fn request(&self) {
        *self.is_requested.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; `true` at once when asked to stop.
    pub(crate) fn within(&self, duration: Duration) -> bool {
        let is_requested = self.is_requested.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(is_requested, duration, |it| !*it);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

pub(crate) fn spawn(
    name: &str,
    path: &Path,
    run: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, OpenError> {
    Builder::new().name(name.into()).spawn(run).map_err(|error| OpenError::io(path, error))
}
