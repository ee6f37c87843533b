//! The bytes between us and one server: many ask on one connection, and are answered in turn.
//!
//! Whoever asks writes its question into a common outbox and waits for its answer; a task sends what has
//! come together, and hands the answers out in the order of the questions.

mod driver;
mod message;
pub(crate) mod question;

use std::future::poll_fn;
use std::io;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use redis::{RedisError, Value};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

use driver::Driver;

/// A connection that many share. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

/// What those who ask and the one who sends have in common.
#[derive(Debug, Default)]
struct Shared {
    desk: Mutex<Desk>,
    /// Told when there is room again.
    room: Notify,
}

/// What was asked, and is not sent yet.
#[derive(Debug, Default)]
struct Desk {
    outbox: Vec<u8>,
    askers: Vec<Asker>,
    /// How many questions have no answer yet, those that were sent included.
    unanswered: usize,
    /// The driver's, while it has nothing to send.
    sleeper: Option<Waker>,
    /// Why nothing can be asked any more.
    ended: Option<RedisError>,
}

/// Where an answer goes.
type Asker = oneshot::Sender<Value>;

/// There are too many questions without an answer.
struct Full;

/// How many may wait for an answer on one connection before the next has to wait to ask (I10).
const UNANSWERED_MAX: usize = 1_024;

// === impl Wire ===

impl Wire {
    pub(crate) fn new(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> Self {
        let shared = Arc::<Shared>::default();
        let mut driver = Driver::new(shared.clone(), stream);
        let driver = tokio::spawn(async move {
            let why = poll_fn(|context| driver.poll(context)).await;
            driver.end(why);
        });
        Self { shared, driver: driver.abort_handle() }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.shared.desk().ended.is_none()
    }

    /// Asks what `write` writes, one question, and waits for its answer, which may be an error.
    pub(crate) async fn ask(&self, write: impl Fn(&mut Vec<u8>)) -> Result<Value, RedisError> {
        let answer = match self.put(&write)? {
            Ok(answer) => answer,
            Err(Full) => Box::pin(self.put_later(&write)).await?,
        };
        self.answered(answer).await
    }

    /// Asks several questions, and nobody gets in between.
    pub(crate) async fn ask_all(
        &self,
        count: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<Value>, RedisError> {
        let waiting: Vec<_> = {
            let mut desk = self.shared.desk();
            desk.check()?;
            let waiting = (0..count).map(|_| desk.expect()).collect();
            desk.send(&write);
            waiting
        };
        let mut answers = Vec::with_capacity(count);
        for answer in waiting {
            answers.push(self.answered(answer).await?);
        }
        Ok(answers)
    }

    fn put(
        &self,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Result<oneshot::Receiver<Value>, Full>, RedisError> {
        let mut desk = self.shared.desk();
        desk.check()?;
        if desk.unanswered >= UNANSWERED_MAX {
            return Ok(Err(Full));
        }
        let answer = desk.expect();
        desk.send(write);
        Ok(Ok(answer))
    }

    async fn put_later(
        &self,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<oneshot::Receiver<Value>, RedisError> {
        loop {
            // Before looking, or the news that there is room could be missed.
            let room = self.shared.room.notified();
            if let Ok(answer) = self.put(&write)? {
                return Ok(answer);
            }
            room.await;
        }
    }

    async fn answered(&self, answer: oneshot::Receiver<Value>) -> Result<Value, RedisError> {
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(_) => Err(self.shared.desk().ended.clone().unwrap_or_else(closed)),
        }
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
}

// === impl Desk ===

impl Desk {
    fn check(&self) -> Result<(), RedisError> {
        self.ended.clone().map_or(Ok(()), Err)
    }

    /// Where the answer to the next question will come.
    fn expect(&mut self) -> oneshot::Receiver<Value> {
        let (asker, answer) = oneshot::channel();
        self.askers.push(asker);
        self.unanswered += 1;
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

    /// So many were answered. Is there room again for those who had to wait?
    const fn answered(&mut self, count: usize) -> bool {
        let was_full = self.unanswered >= UNANSWERED_MAX;
        self.unanswered -= count;
        was_full && self.unanswered < UNANSWERED_MAX
    }
}

/// What is told if nothing better is known.
fn closed() -> RedisError {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed").into()
}

#[cfg(test)]
mod tests;
