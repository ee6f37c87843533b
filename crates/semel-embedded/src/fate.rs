//! What becomes of a group, and how those who wait for it hear of it.
//!
//! A group has many waiters on few threads, and waking a task from another thread costs a call of
//! the operating system. So only one waiter of each thread is woken from afar; it wakes the others
//! of its thread when it runs, which costs next to nothing.
//!
//! This trusts that whoever was woken is soon polled or dropped: either passes the word on. One
//! that is neither holds up the others of its thread, although their fate is said: a future that
//! was leaked, or that its task keeps while it is busy with something else (in a `select!` or
//! `join!` that is not polled, say). The trust is limited: when the fate of the next group is said,
//! those whom the word has not reached are woken from afar. So at worst they wait until something
//! else is written, or until a timeout of their own makes them look; either way they hear what was
//! said.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{self, ThreadId};

/// What became of a group.
#[derive(Clone, Debug)]
pub(crate) enum Fate {
    Durable,
    /// Nothing of it was written.
    Refused(Arc<str>),
    /// It may have been written.
    Unknown(Arc<str>),
    /// Whoever was to write it is no more.
    Orphaned,
}

/// Makes the heralds of one group after the other.
#[derive(Debug, Default)]
pub(crate) struct Heralds {
    last: Option<Arc<Mutex<Shared>>>,
}

/// Says what became of a group. One that is dropped without a word leaves it orphaned.
#[derive(Debug, Default)]
pub(crate) struct Herald {
    shared: Arc<Mutex<Shared>>,
    /// The waiters of the group before: by the time this one's fate is said, they have heard theirs
    /// or are held up.
    before: Option<Arc<Mutex<Shared>>>,
}

/// Waits to hear it.
#[derive(Debug)]
pub(crate) struct Hearing {
    shared: Arc<Mutex<Shared>>,
    /// Where it stands among the waiters, and on which thread it was last polled.
    place: Option<(usize, ThreadId)>,
}

#[derive(Debug, Default)]
struct Shared {
    said: Option<Fate>,
    /// By place; `None` for those who left or were woken.
    waiters: Vec<Option<(ThreadId, Waker)>>,
}

// === impl Heralds ===

impl Heralds {
    pub(crate) fn next(&mut self) -> Herald {
        let shared = Arc::default();
        Herald { before: self.last.replace(Arc::clone(&shared)), shared }
    }
}

// === impl Herald ===

impl Herald {
    pub(crate) fn hearing(&self) -> Hearing {
        Hearing { shared: Arc::clone(&self.shared), place: None }
    }

    pub(crate) fn say(self, fate: Fate) {
        self.announce(fate);
    }

    fn announce(&self, fate: Fate) {
        let mut shared = lock(&self.shared);
        if shared.said.is_some() {
            return;
        }
        shared.said = Some(fate);
        let first_ones = shared.one_of_each_thread();
        drop(shared);
        first_ones.into_iter().for_each(Waker::wake);
        if let Some(before) = &self.before {
            let held_up = lock(before).held_up();
            held_up.into_iter().for_each(Waker::wake);
        }
    }
}

impl Drop for Herald {
    fn drop(&mut self) {
        self.announce(Fate::Orphaned);
    }
}

// === impl Hearing ===

impl Future for Hearing {
    type Output = Fate;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Fate> {
        let this = &mut *self;
        let mut shared = lock(&this.shared);
        if let Some(said) = shared.said.clone() {
            let others = this.place.take().map(|place| shared.others_of_thread(place));
            drop(shared);
            others.into_iter().flatten().for_each(Waker::wake);
            return Poll::Ready(said);
        }
        let thread = thread::current().id();
        let waiter = Some((thread, context.waker().clone()));
        let place = if let Some((place, _)) = this.place {
            shared.waiters[place] = waiter;
            place
        } else {
            shared.waiters.push(waiter);
            shared.waiters.len() - 1
        };
        this.place = Some((place, thread));
        Poll::Pending
    }
}

/// Who leaves without having heard may be the one who was to wake the others.
impl Drop for Hearing {
    fn drop(&mut self) {
        let Some(place) = self.place.take() else {
            return;
        };
        let mut shared = lock(&self.shared);
        if shared.said.is_none() {
            shared.waiters[place.0] = None;
            return;
        }
        let others = shared.others_of_thread(place);
        drop(shared);
        others.into_iter().for_each(Waker::wake);
    }
}

// === impl Shared ===

impl Shared {
    fn one_of_each_thread(&mut self) -> Vec<Waker> {
        let mut threads: Vec<ThreadId> = Vec::new();
        let mut first_ones = Vec::new();
        for waiter in &mut self.waiters {
            if let Some((thread, waker)) = waiter.take_if(|(thread, _)| !threads.contains(thread)) {
                threads.push(thread);
                first_ones.push(waker);
            }
        }
        first_ones
    }

    fn others_of_thread(&mut self, (place, thread): (usize, ThreadId)) -> Vec<Waker> {
        self.waiters[place] = None;
        let of_thread = |waiter: &mut Option<(ThreadId, Waker)>| {
            waiter.take_if(|(other, _)| *other == thread).map(|(_, waker)| waker)
        };
        self.waiters.iter_mut().filter_map(of_thread).collect()
    }

    /// Everyone who does not know what was said.
    fn held_up(&mut self) -> Vec<Waker> {
        if self.said.is_none() {
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
