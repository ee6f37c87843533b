//! Keeps the mark of the clock in the directory up to date, on a thread of its own: a write of a small
//! file once a minute, which no batch has to wait for.

use std::sync::Arc;

use crate::storage::Storage;
use crate::thread::Worker;
use crate::{OpenError, tuning};

/// Starts the thread; it writes the last mark when it is stopped.
pub(crate) fn start(storage: Arc<Storage>) -> Result<Worker, OpenError> {
    let path = storage.path().to_owned();
    Worker::spawn("semel-clock", &path, move |stop| {
        while !stop.within(tuning::MARK_EVERY) {
            storage.keep_mark();
        }
        storage.keep_mark();
    })
}
