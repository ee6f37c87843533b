//! The one thread that syncs: it makes one group after the other durable, each with one sync,
//! while the next one gathers at the [desk](crate::desk).

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use semel_core::Timestamp;

use crate::database::{CommitError, Group};
use crate::desk::{Desk, Gathering, Phase, State};
use crate::fate::Fate;
use crate::tuning;

/// Works until the store is dropped and the last group is written.
pub(crate) fn run(desk: &Desk) {
    let _last_words = LastWords(desk);
    loop {
        match next(desk) {
            Task::Write(gathering) => {
                write(desk, gathering, |group| commit(desk, group));
                desk.state().written();
            }
            Task::Resume => resume(desk),
            Task::Stop => return,
        }
    }
}

/// Sees to it that nobody waits for a committer that has panicked.
struct LastWords<'a>(&'a Desk);

impl Drop for LastWords<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.bury();
        }
    }
}

enum Task {
    Write(Gathering),
    Resume,
    Stop,
}

/// Waits for something to do.
fn next(desk: &Desk) -> Task {
    let mut state = desk.state();
    loop {
        if let Some(gathering) = state.take() {
            return Task::Write(gathering);
        }
        match state.phase {
            Phase::Closed | Phase::Dead => return Task::Stop,
            Phase::Failed if !state.waiting.is_empty() => return Task::Resume,
            Phase::Failed | Phase::Open => {}
        }
        state = desk.work.wait(state).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Writes what was taken, on the caller's own thread, and what gathered meanwhile, a few times and
/// for as long as the engine has room. The rest is the committer's: it may wait, and a caller, on
/// whose thread others want to run, may not.
pub(crate) fn write_itself(
    desk: &Desk,
    mut gathering: Gathering,
    commit: impl Fn(Group) -> Result<(), CommitError>,
    has_room: impl Fn() -> bool,
) {
    let _last_words = LastWords(desk);
    for written in 1.. {
        write(desk, gathering, &commit);
        let mut state = desk.state();
        state.written();
        if state.gathering.is_none() {
            return;
        }
        let goes_on = written < tuning::GROUPS_WRITTEN_ITSELF && has_room();
        match if goes_on { state.take() } else { None } {
            Some(next) => gathering = next,
            None => break,
        }
    }
    desk.work.notify_one();
}

/// Makes the group durable, then lets its callers answer: never the other way round (I5, I6).
fn write(desk: &Desk, gathering: Gathering, commit: impl FnOnce(Group) -> Result<(), CommitError>) {
    let Gathering { number, began, group, operations, fate } = gathering;
    // One that only looked has waited for those before it, and needs nothing more.
    match if group.is_empty() { Ok(()) } else { commit(group) } {
        Ok(()) => {
            desk.room.committed.store(number, Ordering::Release);
            fate.say(Fate::Durable);
        }
        Err(error) => {
            let what: Arc<str> = error.explain(desk.room.path()).into();
            tracing::error!(%what, "a group of writes failed");
            let next = fail(desk, &error, began);
            fate.say(match error {
                CommitError::Failed(_) => Fate::Unknown(Arc::clone(&what)),
                CommitError::Behind | CommitError::Stopped(_) => Fate::Refused(Arc::clone(&what)),
            });
            if let Some(Gathering { operations, fate, .. }) = next {
                fate.say(Fate::Refused(what));
                desk.places.add_permits(operations);
            }
        }
    }
    desk.places.add_permits(operations);
}

fn commit(desk: &Desk, group: Group) -> Result<(), CommitError> {
    match &*desk.room.database() {
        // Also when it only deletes what has expired: a group without a sync before one with could
        // leave a hole in the log after a power cut, and a hole is refused as damage.
        Some(database) => database.commit(group),
        None => Err(CommitError::Behind),
    }
}

/// Forgets the group that failed. What has gathered meanwhile was decided on top of it, and is
/// returned to be refused. `began` is when the first operation of the failed group was decided:
/// renewals of leases that were live then may be lost with it.
fn fail(desk: &Desk, error: &CommitError, began: Timestamp) -> Option<Gathering> {
    let mut state = desk.state();
    // No group after this one is left, so the engine knows all there is; if the failed one was
    // written after all, that is seen only once the engine was opened anew.
    state.recent.clear(desk.room.committed.load(Ordering::Acquire));
    desk.room.outage.begin(began, desk.room.now(), error.is_fatal());
    if error.is_fatal() && state.phase == Phase::Open {
        state.phase = Phase::Failed;
    }
    state.gathering.take()
}

/// Opens the engine anew. Until then it refuses all writes, but goes on reading.
fn resume(desk: &Desk) {
    let resumed = desk.room.resume();
    let mut state = desk.state();
    let State { recent, group, phase, waiting, .. } = &mut *state;
    match resumed {
        Ok(()) => {
            // Whoever looked before may have missed the group that failed: it must look again.
            desk.room.committed.store(*group, Ordering::Release);
            recent.clear(*group);
            desk.room.outage.end(desk.room.now());
            if *phase == Phase::Failed {
                *phase = Phase::Open;
            }
            tracing::info!(path = %desk.room.path().display(), "the store takes writes again");
            waiting.admit();
        }
        Err(error) => waiting.refuse(&Arc::new(error)),
    }
}

#[cfg(test)]
mod tests;
