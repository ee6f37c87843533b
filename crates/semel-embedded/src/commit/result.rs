//! The result of a batch, and the futures that wait for it.
//!
//! A batch has many waiters on few threads, and waking a task from another thread costs a system
//! call. So only one waiter of each thread is woken by the writer; it wakes the others of its thread
//! when it runs, which costs next to nothing.
//!
//! This relies on a woken future being polled or dropped soon: either wakes the others. A future that
//! is neither holds up the others of its thread: one that was leaked, or that its task keeps while
//! it is busy with something else (in a `select!` or `join!` that is not polled, say). Therefore the
//! completion of the next batch wakes all that are still waiting. So at worst a future waits until
//! something else is written, or until a timeout of its own polls it; the result is the same.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

/// The result of a batch.
#[derive(Clone, Debug)]
pub(super) enum CommitResult {
    Durable,
    /// Nothing of it was written.
    Refused(Arc<str>),
    /// Nothing of it was written, for a reason that is no statement about the store.
    NotAsked(Arc<str>),
    /// It may have been written.
    Unknown(Arc<str>),
    /// Its writer is gone.
    Abandoned,
}

/// Makes the notifiers of one batch after the other.
#[derive(Debug, Default)]
pub(super) struct CommitNotifiers {
    last: Option<Arc<Mutex<Shared>>>,
}

/// Completes the futures of a batch. Dropped without a result, it leaves them abandoned.
#[derive(Debug, Default)]
pub(super) struct CommitNotifier {
    shared: Arc<Mutex<Shared>>,
    /// The waiters of the batch before: by the time this one is complete, they have their result or
    /// are held up.
    before: Option<Arc<Mutex<Shared>>>,
}

/// Waits for the result of a batch.
#[derive(Debug)]
pub(super) struct CommitFuture {
    shared: Arc<Mutex<Shared>>,
    /// Its index among the waiters, and the thread on which it was last polled.
    slot: Option<(usize, ThreadId)>,
}

#[derive(Debug, Default)]
struct Shared {
    result: Option<CommitResult>,
    /// `None` for those that were dropped or woken.
    waiters: Vec<Option<(ThreadId, Waker)>>,
}

// === impl CommitNotifiers ===

impl CommitNotifiers {
    pub(super) fn next(&mut self) -> CommitNotifier {
        let shared = Arc::default();
        CommitNotifier { before: self.last.replace(Arc::clone(&shared)), shared }
    }
}

// === impl CommitNotifier ===

impl CommitNotifier {
    pub(super) fn subscribe(&self) -> CommitFuture {
        CommitFuture { shared: Arc::clone(&self.shared), slot: None }
    }

    pub(super) fn complete(self, result: CommitResult) {
        self.notify(result);
    }

    fn notify(&self, result: CommitResult) {
        let mut shared = lock(&self.shared);
        if shared.result.is_some() {
            return;
        }
        shared.result = Some(result);
        let first = shared.first_of_each_thread();
        drop(shared);
        first.into_iter().for_each(Waker::wake);
        if let Some(before) = &self.before {
            let stalled = lock(before).take_stalled();
            stalled.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for CommitNotifier {
    fn drop(&mut self) {
        self.notify(CommitResult::Abandoned);
    }
}

// === impl CommitFuture ===

impl Future for CommitFuture {
    type Output = CommitResult;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<CommitResult> {
        let this = &mut *self;
        let mut shared = lock(&this.shared);
        if let Some(result) = shared.result.clone() {
            let others = this.slot.take().map(|slot| shared.others_of_thread(slot));
            drop(shared);
            others.into_iter().flatten().for_each(Waker::wake);
            return Poll::Ready(result);
        }
        let thread = thread::current().id();
        let waiter = Some((thread, context.waker().clone()));
        let index = if let Some((index, _)) = this.slot {
            shared.waiters[index] = waiter;
            index
        } else {
            shared.waiters.push(waiter);
            shared.waiters.len() - 1
        };
        this.slot = Some((index, thread));
        Poll::Pending
    }
}

/// A future that is dropped without its result may be the one that was to wake the others.
impl Drop for CommitFuture {
    fn drop(&mut self) {
        let Some(slot) = self.slot.take() else {
            return;
        };
        let mut shared = lock(&self.shared);
        if shared.result.is_none() {
            shared.waiters[slot.0] = None;
            return;
        }
        let others = shared.others_of_thread(slot);
        drop(shared);
        others.into_iter().for_each(Waker::wake);
    }
}

// === impl Shared ===

impl Shared {
    fn first_of_each_thread(&mut self) -> Vec<Waker> {
        let mut threads: Vec<ThreadId> = Vec::new();
        let mut first = Vec::new();
        for waiter in &mut self.waiters {
            if let Some((thread, waker)) = waiter.take_if(|(thread, _)| !threads.contains(thread)) {
                threads.push(thread);
                first.push(waker);
            }
        }
        first
    }

    fn others_of_thread(&mut self, (index, thread): (usize, ThreadId)) -> Vec<Waker> {
        self.waiters[index] = None;
        let of_thread = |waiter: &mut Option<(ThreadId, Waker)>| {
            waiter.take_if(|(other, _)| *other == thread).map(|(_, waker)| waker)
        };
        self.waiters.iter_mut().filter_map(of_thread).collect()
    }

    /// All that wait although the batch is complete.
    fn take_stalled(&mut self) -> Vec<Waker> {
        if self.result.is_none() {
            return Vec::new();
        }
        self.waiters.iter_mut().filter_map(Option::take).map(|(_, waker)| waker).collect()
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    // Nothing in here panics between two changes.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
