//! Deletes expired records, in small steps that never hold up a claim.
//!
//! Expired records are invisible long before (they are not there as far as `decide` goes), so a
//! sweep only gives space back and can take its time: its deletions join whatever batch is open.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use semel_core::RecordId;
use semel_core::planted::{Bug, planted};
use semel_store::{StoreError, Swept};

use crate::commit::{CommitQueue, Pending};
use crate::storage::reopening;
use crate::thread::{Stop, Worker};
use crate::{OpenError, tuning};

/// The position of the sweep, shared by its clones.
#[derive(Clone)]
pub(crate) struct Cursor {
    queue: Arc<CommitQueue>,
    next: Arc<Mutex<RecordId>>,
}

/// A step that was taken, and is to become durable.
pub(crate) struct Step {
    deletions: Option<Pending<usize>>,
    more: bool,
}

const START: RecordId = RecordId::from_bytes([0; 32]);

// === impl Cursor ===

impl Cursor {
    pub(crate) fn new(queue: Arc<CommitQueue>) -> Self {
        Self { queue, next: Arc::new(Mutex::new(START)) }
    }

    /// One step: scans a range of records and deletes up to `limit` expired ones. What it returns
    /// holds once the deletions are durable.
    pub(crate) fn step(&self, limit: usize) -> Result<Step, StoreError> {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let storage = self.queue.storage();
        if !storage.may_sweep() {
            return Ok(Step { deletions: None, more: false });
        }
        let as_of = self.queue.visible();
        let now = storage.now();
        let scan = {
            let database = storage.database();
            let database = database.as_ref().ok_or_else(reopening)?;
            let is_expired = |created, expires| storage.times.is_expired(created, expires, now);
            database.scan_expired(*next, is_expired, tuning::SWEEP_SCAN, limit)?
        };
        let deletions = match scan.expired[..] {
            [] => None,
            ref ids => Some(self.queue.delete(ids, as_of)?),
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

/// Starts the thread that sweeps in the background.
pub(crate) fn start(cursor: Cursor, rest: Duration) -> Result<Worker, OpenError> {
    // No fault run can wait for a minute.
    let is_wrong = planted(Bug::SweepDeletesLiveLeases);
    let rest = if is_wrong { Duration::from_millis(200) } else { rest };
    let path = cursor.queue.storage().path().to_owned();
    Worker::spawn(
        "semel-sweeper",
        &path,
        move |stop| {
            while !stop.within(rest) && pass(&cursor, stop) {}
        },
    )
}

/// Sweeps through the whole table once; `false` if asked to stop.
fn pass(cursor: &Cursor, stop: &Stop) -> bool {
    loop {
        // The sweep goes on before these deletions are durable.
        let rest = match cursor.step(tuning::SWEEP_DELETE) {
            Ok(Step { more: false, .. }) => return true,
            Ok(Step { deletions: Some(_), .. }) => tuning::SWEEP_REST,
            Ok(Step { deletions: None, .. }) => tuning::SWEEP_REST_IDLE,
            Err(error) => {
                // The next pass tries again. Logged, as nothing else shows it: expired records are
                // never read, and only take space.
                tracing::warn!(%error, "a sweep was cut short");
                return true;
            }
        };
        if stop.within(rest) {
            return false;
        }
    }
}
