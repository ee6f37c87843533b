//! Keeps the mark of the clock in the directory up to date, on a thread of its own: a write of a small
//! file once a minute, which no group has to wait for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::room::Room;
use crate::store::spawn;
use crate::{OpenError, tuning};

/// The thread that keeps the mark; ends when dropped, with the last mark.
pub(crate) struct Keeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

/// Asks a thread to stop.
#[derive(Default)]
pub(crate) struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

// === impl Keeper ===

impl Keeper {
    pub(crate) fn start(room: Arc<Room>) -> Result<Self, OpenError> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let path = room.path().to_owned();
        let keep = move || {
            while !asked.within(tuning::MARK_EVERY) {
                room.keep_mark();
            }
            room.keep_mark();
        };
        Ok(Self { stop, thread: Some(spawn("semel-clock", &path, keep)?) })
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Stop ===

impl Stop {
    pub(crate) fn ask(&self) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `duration`; `true` at once when asked to stop.
    pub(crate) fn within(&self, duration: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(asked, duration, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
