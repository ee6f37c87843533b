//! Deletes expired records, in small steps that never hold up a claim.
//!
//! Expired records are invisible long before (they are not there as far as `decide` goes), so a
//! sweep only gives space back and can take its time: its deletions ride along with whatever group
//! they meet. The table is read by the sweeper; only the deletions pass the committer.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use semel_core::RecordId;
use semel_store::{StoreError, Swept};
use tokio::sync::{mpsc, oneshot};

use crate::operation::Operation;
use crate::room::Room;
use crate::store::spawn;
use crate::{OpenError, tuning};

/// Where the sweep stands. Clones share the place.
#[derive(Clone)]
pub(crate) struct Cursor {
    room: Arc<Room>,
    /// Weak, so that a sweeper does not keep the committer alive.
    queue: mpsc::WeakSender<Operation>,
    next: Arc<Mutex<RecordId>>,
}

/// The thread that sweeps in the background; ends when dropped.
pub(crate) struct Sweeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

const START: RecordId = RecordId::from_bytes([0; 32]);

// === impl Cursor ===

impl Cursor {
    pub(crate) fn new(room: Arc<Room>, queue: mpsc::WeakSender<Operation>) -> Self {
        Self { room, queue, next: Arc::new(Mutex::new(START)) }
    }

    /// One step: looks at a stretch of records and deletes up to `limit` expired ones.
    pub(crate) fn sweep(&self, limit: usize) -> Result<Swept, StoreError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let as_of = self.room.committed.load(Ordering::Acquire);
        let now = self.room.now();
        let scan = match &*self.room.database() {
            Some(database) => database.scan_expired(*next, now, tuning::SWEEP_SCAN, limit)?,
            None => return Err(StoreError::unavailable("the engine is being opened again")),
        };
        let deleted = if scan.expired.is_empty() { 0 } else { self.forget(scan.expired, as_of)? };
        let more = scan.next.is_some();
        *next = scan.next.unwrap_or(START);
        Ok(Swept { deleted, more })
    }

    /// Has the committer delete these, unless they were written since they were read.
    fn forget(&self, ids: Vec<RecordId>, as_of: u64) -> Result<usize, StoreError> {
        let closed = || StoreError::unavailable("the embedded store has been closed");
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.upgrade().ok_or_else(closed)?;
        queue.blocking_send(Operation::Forget { ids, as_of, reply }).map_err(|_| closed())?;
        // Not to be held while waiting: it keeps the committer from ending.
        drop(queue);
        answer.blocking_recv().unwrap_or_else(|_| Err(closed()))
    }
}

// === impl Sweeper ===

impl Sweeper {
    pub(crate) fn start(cursor: Cursor, rest: Duration) -> Result<Self, OpenError> {
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let path = cursor.room.path().to_owned();
        let thread =
            spawn(
                "semel-sweeper",
                &path,
                move || {
                    while !asked.within(rest) && pass(&cursor, &asked) {}
                },
            )?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

/// Sweeps through the whole table once; `false` if asked to stop.
fn pass(cursor: &Cursor, stop: &Stop) -> bool {
    loop {
        match cursor.sweep(tuning::SWEEP_DELETE) {
            Ok(Swept { more: false, .. }) => return true,
            Ok(_) => {}
            Err(error) => {
                // It says the same to every claim; the next pass tries again.
                tracing::debug!(%error, "a sweep was cut short");
                return true;
            }
        }
        if stop.within(tuning::SWEEP_REST) {
            return false;
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        *self.stop.asked.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.stop.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

// === impl Stop ===

impl Stop {
    /// Waits for `duration`; `true` at once when asked to stop.
    fn within(&self, duration: Duration) -> bool {
        let asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(asked, duration, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
