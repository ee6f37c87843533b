//! Where writes gather: every caller decides its own operation here, one after the other, and joins
//! the group that the [committer](crate::committer) makes durable next. Where that takes no sync,
//! the first of the group whose turn comes again writes it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use semel_core::{Record, RecordId, Timestamp};
use semel_store::StoreError;
use tokio::sync::Semaphore;

use crate::committer;
use crate::database::{Database, Group};
use crate::fate::{Fate, Hearing, Herald, Heralds};
use crate::recent::{Known, Recent, Seen};
use crate::room::Room;
use crate::turn::{Rank, Turn, Waiting};
use crate::{Durability, tuning};

/// The one place where records change. Deciding takes about a microsecond, under a lock; becoming
/// durable takes a sync of the device, which a whole group shares.
pub(crate) struct Desk {
    pub(crate) room: Arc<Room>,
    pub(crate) state: Mutex<State>,
    /// Tells the committer that there is something to do.
    pub(crate) work: Condvar,
    /// One for each operation that is not yet answered (I10).
    pub(crate) places: Semaphore,
    /// Do callers write their groups themselves? A write without a sync takes less time than waking
    /// the committer and being woken by it.
    callers_write: bool,
}

pub(crate) struct State {
    pub(crate) recent: Recent,
    /// The group that gathers.
    pub(crate) gathering: Option<Gathering>,
    /// The number of the group that gathers, or of the one before if none does.
    pub(crate) group: u64,
    pub(crate) heralds: Heralds,
    /// Is a group being written? Only one is at a time, and they follow each other in order.
    pub(crate) writing: bool,
    /// How many operations the last group had: the next will have about as many.
    pub(crate) last_operations: usize,
    pub(crate) phase: Phase,
    /// Those that wait for the engine to be opened anew.
    pub(crate) waiting: Waiting,
}

/// Can the engine take writes?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Open,
    /// It has failed, and must be opened anew before the next write.
    Failed,
    /// The store is being dropped.
    Closed,
    /// The committer has panicked: nobody is left to write.
    Dead,
}

/// A group of decided operations that waits to become durable.
pub(crate) struct Gathering {
    pub(crate) number: u64,
    /// When its first operation was decided.
    pub(crate) began: Timestamp,
    pub(crate) group: Group,
    pub(crate) operations: usize,
    pub(crate) fate: Herald,
}

/// An answer that must not be given before its group is durable (I5, I6).
pub(crate) struct Pending<A> {
    answer: A,
    fate: Hearing,
    /// The number of its group.
    group: u64,
}

/// A caller's promise to write the group that it joined. If it leaves before, the committer must.
struct Promise<'a> {
    desk: &'a Desk,
    is_kept: bool,
}

// === impl Desk ===

impl Desk {
    pub(crate) fn new(room: Arc<Room>) -> Self {
        let callers_write = room.durability() == Durability::Process;
        let state = State {
            recent: Recent::default(),
            gathering: None,
            group: 0,
            heralds: Heralds::default(),
            writing: false,
            last_operations: 0,
            phase: Phase::Open,
            waiting: Waiting::default(),
        };
        Self {
            room,
            state: Mutex::new(state),
            work: Condvar::new(),
            places: Semaphore::new(tuning::OPERATIONS_MAX),
            callers_write,
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        // Whoever panics in the middle of a change leaves its group to the committer, which writes
        // all of it or nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Decides an operation on `id` with `decide`, which gives the answer and what to write, and
    /// answers once that is durable.
    pub(crate) async fn submit<A>(
        &self,
        rank: Rank,
        id: RecordId,
        seen: Option<Seen>,
        decide: impl FnOnce(Option<&Record>, Timestamp) -> (A, Option<Record>),
    ) -> Result<A, StoreError> {
        let turn = self.resume_if_failed(rank).await?;
        let place = self.places.acquire().await.map_err(|_| closed())?;
        let pending = self.stage(id, seen, decide)?;
        drop(turn);
        // From here on the committer gives the place back, whether or not the caller still waits.
        place.forget();
        if self.callers_write {
            self.write_in_turn(pending.group).await;
        }
        pending.answer().await
    }

    /// Writes the group that this caller has joined, unless another has. Not at once: others of its
    /// thread who are ready now join first, and one write serves them all.
    async fn write_in_turn(&self, group: u64) {
        let mut promise = Promise { desk: self, is_kept: false };
        tokio::task::yield_now().await;
        promise.is_kept = self.write_gathered(group);
    }

    /// Writes this group, if it still gathers. Whether somebody has seen or will see to it.
    fn write_gathered(&self, group: u64) -> bool {
        let database = self.room.database();
        let Some(database) = database.as_ref() else { return false };
        let mut state = self.state();
        let gathers = state.gathering.as_ref().is_some_and(|gathering| gathering.number == group);
        // Whoever writes looks again at what has gathered meanwhile.
        if !gathers || state.writing {
            return true;
        }
        let Some(gathering) = database.has_room().then(|| state.take()).flatten() else {
            return false;
        };
        drop(state);
        let commit = |group| database.commit_now(group);
        committer::write_itself(self, gathering, commit, || database.has_room());
        true
    }

    /// Deletes what expired, but for records that were written since they were read.
    pub(crate) fn forget(
        &self,
        ids: &[RecordId],
        as_of: u64,
    ) -> Result<Pending<usize>, StoreError> {
        let database = self.room.database();
        let database = database.as_ref().ok_or_else(reopening)?;
        let mut state = self.state();
        state.check_open()?;
        if state.gathering.as_ref().is_some_and(|g| g.group.len() >= tuning::OPERATIONS_MAX) {
            return Err(StoreError::unavailable("the disk is too slow for a sweep now"));
        }
        let (idle, now) = (state.is_idle(), self.room.now());
        let mut forgotten = 0;
        for &id in ids {
            if state.recent.untouched_since(id, as_of) {
                state.gather(database, now).group.delete(id);
                let group = state.group;
                state.recent.deleted(group, id);
                forgotten += 1;
            }
        }
        let fate = state.gather(database, now).fate.hearing();
        let group = state.group;
        state.recent.forget_old(self.room.committed.load(Ordering::Acquire));
        drop(state);
        // Not by the sweeper itself: its groups are large.
        self.wake_committer(idle);
        Ok(Pending { answer: forgotten, fate, group })
    }

    /// Reads what can be read for sure.
    pub(crate) fn read(&self, database: &Database, id: RecordId) -> Result<Seen, StoreError> {
        // Before the look: a group that becomes visible after this number was taken can only make
        // what is seen newer than `as_of` says.
        let as_of = self.room.committed.load(Ordering::Acquire);
        Ok(Seen { as_of, record: database.get(id)? })
    }

    fn stage<A>(
        &self,
        id: RecordId,
        mut seen: Option<Seen>,
        decide: impl FnOnce(Option<&Record>, Timestamp) -> (A, Option<Record>),
    ) -> Result<Pending<A>, StoreError> {
        let database = self.room.database();
        let database = database.as_ref().ok_or_else(reopening)?;
        for _ in 0..tuning::LOOKS_MAX {
            let mut state = self.state();
            state.check_open()?;
            let Known::Is(mut current) = state.recent.know(id, seen.take()) else {
                // Not under the lock: it may take a read from the disk.
                drop(state);
                seen = Some(self.read(database, id)?);
                continue;
            };
            let idle = state.is_idle();
            let now = self.room.now();
            self.room.judge(current.as_mut(), now);
            let (answer, write) = decide(current.as_ref(), now);
            let committed = self.room.committed.load(Ordering::Acquire);
            let pending = state.join(database, now, id, answer, write, committed);
            drop(state);
            if !self.callers_write {
                self.wake_committer(idle);
            }
            return Ok(pending);
        }
        Err(StoreError::unavailable("the embedded store is too busy to look at the record"))
    }

    /// Wakes the committer for a group that began to gather while the desk was idle. Otherwise it
    /// was woken already, or whoever writes looks again; each try costs a call of the operating
    /// system.
    fn wake_committer(&self, was_idle: bool) {
        if was_idle {
            self.work.notify_one();
        }
    }

    /// Waits for the engine to be opened anew, if it has failed. A holder's operation is to be
    /// decided before what this gives is dropped.
    ///
    /// How many wait here, as for a place, is bounded by the callers (I10): an operation is one entry for
    /// as long as its future lives, so the limits on executions and connections are limits on these. A
    /// bound of its own would refuse holders, whose outcome must not be lost, because of claims.
    async fn resume_if_failed(&self, rank: Rank) -> Result<Option<Arc<Turn>>, StoreError> {
        let told = {
            let mut state = self.state();
            if state.phase != Phase::Failed {
                return state.check_open().map(|()| None);
            }
            state.waiting.join(rank)
        };
        self.work.notify_one();
        match told.await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(error)) => Err(error.to_store_error()),
            Err(_) => Err(closed()),
        }
    }

    /// Is the store able to write? Opens it anew if it has failed.
    pub(crate) async fn check(&self) -> Result<(), StoreError> {
        let stopped = {
            let database = self.room.database();
            database.as_ref().is_some_and(|database| database.check_alive().is_err())
        };
        if stopped {
            let mut state = self.state();
            if state.phase == Phase::Open {
                state.phase = Phase::Failed;
                let now = self.room.now();
                self.room.outage.begin(now, now, true);
            }
        }
        self.resume_if_failed(Rank::Claim).await.map(drop)
    }

    /// The committer is no more: tells everyone who waits, and everyone to come.
    pub(crate) fn bury(&self) {
        let mut state = self.state();
        state.phase = Phase::Dead;
        state.waiting.clear();
        // Dropping the group leaves its callers without a fate, which they take for unknown.
        state.gathering = None;
        self.places.close();
    }
}

// === impl State ===

impl State {
    fn check_open(&self) -> Result<(), StoreError> {
        match self.phase {
            Phase::Open => Ok(()),
            Phase::Failed => Err(reopening()),
            Phase::Closed => Err(closed()),
            Phase::Dead => Err(dead()),
        }
    }

    /// Does nothing gather, and is nothing written?
    const fn is_idle(&self) -> bool {
        self.gathering.is_none() && !self.writing
    }

    /// Puts a decided operation into the group that gathers. One without a write joins as well: it
    /// may rest on what an earlier one has written and what is not durable yet.
    fn join<A>(
        &mut self,
        database: &Database,
        now: Timestamp,
        id: RecordId,
        answer: A,
        write: Option<Record>,
        committed: u64,
    ) -> Pending<A> {
        let gathering = self.gather(database, now);
        gathering.operations += 1;
        let fate = gathering.fate.hearing();
        if let Some(record) = write {
            gathering.group.write(id, &record);
            self.recent.wrote(self.group, id, record);
            self.recent.forget_old(committed);
        }
        Pending { answer, fate, group: self.group }
    }

    /// The group that gathers; a new one if the last was taken.
    fn gather(&mut self, database: &Database, now: Timestamp) -> &mut Gathering {
        if self.gathering.is_none() {
            self.group += 1;
        }
        self.gathering.get_or_insert_with(|| Gathering {
            number: self.group,
            began: now,
            group: database.group(self.last_operations.max(tuning::GROUP_SMALLEST)),
            operations: 0,
            fate: self.heralds.next(),
        })
    }

    /// A group was written, or has failed.
    pub(crate) fn written(&mut self) {
        self.writing = false;
        self.waiting.end_turn();
    }

    /// The group that gathered, to be written now, if no other is being written.
    pub(crate) fn take(&mut self) -> Option<Gathering> {
        if self.writing {
            return None;
        }
        let gathering = self.gathering.take()?;
        self.writing = true;
        self.last_operations = gathering.operations;
        Some(gathering)
    }
}

// === impl Promise ===

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.desk.work.notify_one();
        }
    }
}

// === impl Pending ===

impl<A> Pending<A> {
    /// The answer, once its group is durable.
    pub(crate) async fn answer(self) -> Result<A, StoreError> {
        match self.fate.await {
            Fate::Durable => Ok(self.answer),
            Fate::Refused(what) => Err(StoreError::unavailable(&*what)),
            Fate::Unknown(what) => {
                Err(StoreError::TimedOut { what: what.to_string(), source: None })
            }
            // Its writer panicked in the middle of it, and nobody knows what was written.
            Fate::Orphaned => Err(StoreError::TimedOut { what: DEAD.into(), source: None }),
        }
    }
}

const DEAD: &str = "the committer of the embedded store has stopped; restart the process";

fn dead() -> StoreError {
    StoreError::unavailable(DEAD)
}

pub(crate) fn closed() -> StoreError {
    StoreError::unavailable("the embedded store has been closed")
}

pub(crate) fn reopening() -> StoreError {
    StoreError::unavailable("the embedded store is being opened again after a failure")
}
