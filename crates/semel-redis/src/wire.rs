//! The bytes between us and one server: many ask on one connection, and are answered in turn.
//!
//! Whoever asks writes its question into a common outbox and waits for its answer; a task sends what has
//! come together, hands the answers out in the order of the questions, and watches the time for all.

mod driver;
mod message;
pub(crate) mod question;

use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use redis::{RedisError, Value};
use semel_socket::Ending;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use driver::Driver;

/// A connection that many share. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Unanswered {
    /// Others wait for theirs, and there was no room to ask in time. Nothing was sent.
    Crowded,
    /// The connection is of no more use.
    Broken(RedisError),
    /// It did not come in time.
    Late,
}

/// What those who ask and the one who sends have in common.
#[derive(Debug)]
struct Shared {
    desk: Mutex<Desk>,
    /// For questions without an answer (I10). Closed when the connection ends.
    room: Semaphore,
}

/// What was asked, and is not sent yet.
#[derive(Debug, Default)]
struct Desk {
    outbox: Vec<u8>,
    askers: Vec<Asker>,
    /// The driver's, while it has nothing to send.
    sleeper: Option<Waker>,
    /// An answer is overdue: nothing more should be asked.
    is_late: bool,
    /// Why nothing can be asked any more.
    ended: Option<RedisError>,
    /// It ended because answers were overdue, and nobody waited for another.
    is_given_up: bool,
}

/// Where an answer goes.
#[derive(Debug)]
struct Asker {
    /// Nowhere, if it is too late.
    to: Option<oneshot::Sender<Value>>,
    deadline: Option<Instant>,
    /// How much of the room the question takes.
    room: u32,
}

/// How many may wait for an answer on one connection before the next has to wait to ask (I10).
const ROOM: usize = 1_024;
/// A long question takes as much room as several: so many bytes count as one.
const ROOM_BYTES: usize = 16 << 10;

// === impl Wire ===

impl Wire {
    /// If answers are owed when it ends, it is reset: a question that is still on its way must not arrive
    /// after whoever asked it has given up.
    pub(crate) fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        ending: Ending,
    ) -> Self {
        let shared = Arc::new(Shared { desk: Mutex::default(), room: Semaphore::new(ROOM) });
        let mut driver = Driver::new(shared.clone(), stream, ending);
        let driver = tokio::spawn(async move {
            let why = poll_fn(|context| driver.poll(context)).await;
            driver.end(why);
        });
        Self { shared, driver: driver.abort_handle() }
    }

    /// May more be asked?
    pub(crate) fn is_open(&self) -> bool {
        let desk = self.shared.desk();
        desk.ended.is_none() && !desk.is_late
    }

    /// Asks what `write` writes, one question of about so many bytes, and waits for its answer, which may be
    /// an error. Once it is late, [`is_open`](Self::is_open) is false, also if nobody waits any more.
    pub(crate) async fn ask_until(
        &self,
        deadline: Instant,
        bytes: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Value, Unanswered> {
        let room = room_for(bytes);
        match self.shared.room.try_acquire_many(room) {
            Ok(taken) => taken.forget(),
            Err(_) => Box::pin(self.make_room(room, Some(deadline))).await?,
        }
        let answer = {
            let mut desk = self.shared.desk();
            desk.check()?;
            let answer = desk.expect(Some(deadline), room);
            desk.send(write);
            answer
        };
        self.answered(answer).await
    }

    /// Asks one question. The caller looks after the time.
    pub(crate) async fn ask(&self, write: impl Fn(&mut Vec<u8>)) -> Result<Value, RedisError> {
        let answered = self.ask_all(1, write).await?.pop();
        answered.ok_or_else(closed)
    }

    /// Asks several questions, and nobody gets in between. The caller looks after the time.
    pub(crate) async fn ask_all(
        &self,
        count: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<Value>, RedisError> {
        self.ask_together(None, count, write).await.map_err(|unanswered| match unanswered {
            Unanswered::Broken(why) => why,
            Unanswered::Crowded | Unanswered::Late => closed(),
        })
    }

    /// Asks several questions, and nobody gets in between; with a deadline as for one question, if there is
    /// one.
    pub(crate) async fn ask_together(
        &self,
        deadline: Option<Instant>,
        count: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<Value>, Unanswered> {
        // All at once: whoever gives up on the way must not keep some of it.
        self.make_room(u32::try_from(count).unwrap_or(u32::MAX), deadline).await?;
        let waiting: Vec<_> = {
            let mut desk = self.shared.desk();
            desk.check()?;
            let waiting = (0..count).map(|_| desk.expect(deadline, 1)).collect();
            desk.send(&write);
            waiting
        };
        let mut answers = Vec::with_capacity(count);
        for answer in waiting {
            answers.push(self.answered(answer).await?);
        }
        Ok(answers)
    }

    /// Waits until those who came before have made room.
    async fn make_room(&self, room: u32, deadline: Option<Instant>) -> Result<(), Unanswered> {
        let making = self.shared.room.acquire_many(room);
        let made = match deadline {
            None => making.await,
            Some(deadline) => {
                timeout_at(deadline, making).await.map_err(|_| Unanswered::Crowded)?
            }
        };
        // If it has ended, nothing was asked yet.
        let ended = |_| self.shared.desk().ended.clone().unwrap_or_else(closed);
        made.map_err(ended).map_err(Unanswered::Broken)?.forget();
        Ok(())
    }

    async fn answered(&self, answer: oneshot::Receiver<Value>) -> Result<Value, Unanswered> {
        answer.await.map_err(|_| self.shared.why())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // Nobody waits for an answer any more. A server that is silent would keep it open.
        self.driver.abort();
    }
}

// === impl Shared ===

impl Shared {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // A question that panics while it is written leaves half a message, so nothing is sent after it.
        self.desk.lock().unwrap_or_else(|poisoned| {
            let mut desk = PoisonError::into_inner(poisoned);
            desk.ended.get_or_insert_with(closed);
            desk
        })
    }

    /// Why somebody has no answer: if the connection has not ended by itself, that one's time was over.
    fn why(&self) -> Unanswered {
        let desk = self.desk();
        match &desk.ended {
            Some(why) if !desk.is_given_up => Unanswered::Broken(why.clone()),
            _ => Unanswered::Late,
        }
    }
}

// === impl Desk ===

impl Desk {
    fn check(&self) -> Result<(), Unanswered> {
        self.ended.clone().map_or(Ok(()), |why| Err(Unanswered::Broken(why)))
    }

    /// Where the answer to the next question will come.
    fn expect(&mut self, deadline: Option<Instant>, room: u32) -> oneshot::Receiver<Value> {
        let (to, answer) = oneshot::channel();
        self.askers.push(Asker { to: Some(to), deadline, room });
        answer
    }

    fn send(&mut self, write: impl Fn(&mut Vec<u8>)) {
        write(&mut self.outbox);
        if let Some(driver) = self.sleeper.take() {
            driver.wake();
        }
    }

    /// Takes over all that is to be sent.
    fn take(&mut self, bytes: &mut Vec<u8>, askers: &mut impl Extend<Asker>) {
        mem::swap(&mut self.outbox, bytes);
        askers.extend(self.askers.drain(..));
    }
}

// === impl Asker ===

impl Asker {
    /// Is there still somebody who wants the answer?
    fn waits(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// Is it too late by now? Then it is told, and its answer is not waited for.
    fn give_up(&mut self, now: Instant) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= now) && self.to.is_some();
        if is_late {
            self.to = None;
        }
        is_late
    }
}

/// However long it is, all of the room is enough.
fn room_for(bytes: usize) -> u32 {
    u32::try_from((1 + bytes / ROOM_BYTES).min(ROOM)).unwrap_or(u32::MAX)
}

/// What is told if nothing better is known.
fn closed() -> RedisError {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed").into()
}

#[cfg(test)]
mod tests;
