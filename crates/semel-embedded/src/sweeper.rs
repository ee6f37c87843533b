//! Deletes expired records, in small steps that never hold up a claim.
//!
//! Expired records are invisible long before (they are not there as far as `decide` goes), so a
//! sweep only gives space back and can take its time: its deletions ride along with whatever group
//! they meet.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use semel_core::RecordId;
use semel_planted::{Bug, planted};
use semel_store::{StoreError, Swept};

use crate::desk::{Desk, Pending, reopening};
use crate::keeper::Stop;
use crate::store::spawn;
use crate::{OpenError, tuning};

/// Where the sweep stands. Clones share the place.
#[derive(Clone)]
pub(crate) struct Cursor {
    desk: Arc<Desk>,
    next: Arc<Mutex<RecordId>>,
}

/// A step that was taken, and is to become durable.
pub(crate) struct Step {
    deletions: Option<Pending<usize>>,
    more: bool,
}

/// The thread that sweeps in the background; ends when dropped.
pub(crate) struct Sweeper {
    stop: Arc<Stop>,
    thread: Option<JoinHandle<()>>,
}

const START: RecordId = RecordId::from_bytes([0; 32]);

// === impl Cursor ===

impl Cursor {
    pub(crate) fn new(desk: Arc<Desk>) -> Self {
        Self { desk, next: Arc::new(Mutex::new(START)) }
    }

    /// One step: looks at a stretch of records and deletes up to `limit` expired ones. What it
    /// says is true once the deletions are durable.
    pub(crate) fn step(&self, limit: usize) -> Result<Step, StoreError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let room = &self.desk.room;
        if !room.may_sweep() {
            return Ok(Step { deletions: None, more: false });
        }
        let as_of = room.committed.load(Ordering::Acquire);
        let now = room.now();
        let scan = {
            let database = room.database();
            let database = database.as_ref().ok_or_else(reopening)?;
            let is_expired = |created, expires| room.times.is_expired(created, expires, now);
            database.scan_expired(*next, is_expired, tuning::SWEEP_SCAN, limit)?
        };
        let deletions = match scan.expired[..] {
            [] => None,
            ref ids => Some(self.desk.forget(ids, as_of)?),
        };
        let more = scan.next.is_some();
        *next = scan.next.unwrap_or(START);
        Ok(Step { deletions, more })
    }
}

// === impl Step ===

impl Step {
    pub(crate) async fn done(self) -> Result<Swept, StoreError> {
        let deleted = match self.deletions {
            Some(deletions) => deletions.answer().await?,
            None => 0,
        };
        Ok(Swept { deleted, more: self.more })
    }
}

// === impl Sweeper ===

impl Sweeper {
    pub(crate) fn start(cursor: Cursor, rest: Duration) -> Result<Self, OpenError> {
        // No fault run can wait for a minute.
        let is_wrong = planted(Bug::SweepDeletesLiveLeases);
        let rest = if is_wrong { Duration::from_millis(200) } else { rest };
        let stop = Arc::new(Stop::default());
        let asked = Arc::clone(&stop);
        let path = cursor.desk.room.path().to_owned();
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
        // Nobody waits for these deletions to be durable, so the sweep goes on meanwhile.
        let rest = match cursor.step(tuning::SWEEP_DELETE) {
            Ok(Step { more: false, .. }) => return true,
            Ok(Step { deletions: Some(_), .. }) => tuning::SWEEP_REST,
            Ok(Step { deletions: None, .. }) => tuning::SWEEP_REST_IDLE,
            Err(error) => {
                // The next pass tries again. Said aloud, as nothing else may notice: expired
                // records are read by nobody, and only take space.
                tracing::warn!(%error, "a sweep was cut short");
                return true;
            }
        };
        if stop.within(rest) {
            return false;
        }
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.stop.ask();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
