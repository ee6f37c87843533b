//! The order in which tasks continue that are woken at once.
//!
//! A channel of Tokio wakes its waiters in a random order that no seed determines. So wakes are collected first,
//! and the woken tasks continue in the order of their creation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Wake, Waker};

/// The woken tasks of a process.
#[derive(Default)]
pub(crate) struct Wakes(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    tasks: u64,
    due: BTreeMap<u64, Waker>,
    /// Wakes the task that passes the wakes on.
    pass_on: Option<Waker>,
}

/// Wakes one task, in its turn.
pub(crate) struct TaskWaker {
    wakes: Arc<Wakes>,
    task: u64,
    waker: Mutex<Waker>,
}

// === impl Wakes ===

impl Wakes {
    /// For the next task.
    pub(crate) fn waker(self: &Arc<Self>) -> Arc<TaskWaker> {
        let mut inner = self.inner();
        inner.tasks += 1;
        let (task, waker) = (inner.tasks, Mutex::new(Waker::noop().clone()));
        Arc::new(TaskWaker { wakes: self.clone(), task, waker })
    }

    /// Passes all wakes on, for ever.
    pub(crate) fn pass_on(self: Arc<Self>) -> impl Future<Output = ()> + Send {
        std::future::poll_fn(move |context| {
            let mut inner = self.inner();
            inner.pass_on = Some(context.waker().clone());
            let due = std::mem::take(&mut inner.due);
            drop(inner);
            due.into_values().for_each(Waker::wake);
            Poll::Pending
        })
    }

    fn note(&self, task: u64, waker: Waker) {
        let mut inner = self.inner();
        inner.due.insert(task, waker);
        if let Some(pass_on) = inner.pass_on.take() {
            drop(inner);
            pass_on.wake();
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl TaskWaker ===

impl TaskWaker {
    /// The task is polled, and this wakes it.
    pub(crate) fn follow(&self, waker: &Waker) {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone_from(waker);
    }
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        let waker = self.waker.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.wakes.note(self.task, waker);
    }
}
