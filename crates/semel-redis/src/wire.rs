//! One pipelined connection to one server: commands of many callers share it, and replies come back in
//! order.
//!
//! A caller appends its command to a shared send buffer and waits for the reply. A driver task writes the
//! buffer, matches replies to commands by order, and enforces the deadlines of all of them.

pub(crate) mod command;
mod driver;
mod message;

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

/// A connection shared by many callers. It is closed when it is dropped.
#[derive(Debug)]
pub(crate) struct Wire {
    shared: Arc<Shared>,
    driver: AbortHandle,
}

/// Why a call has no reply.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The pending queue was full until the deadline. Nothing was sent.
    QueueFull,
    /// The connection failed.
    Broken(RedisError),
    /// The reply did not arrive before the deadline.
    Timeout,
}

/// The state that callers share with the driver.
#[derive(Debug)]
struct Shared {
    buffer: Mutex<SendBuffer>,
    /// Permits for pending replies (I10). Closed when the connection ends.
    capacity: Semaphore,
}

/// Commands that are not sent yet.
#[derive(Debug, Default)]
struct SendBuffer {
    out: Vec<u8>,
    pending: Vec<PendingReply>,
    /// Set while the driver has nothing to send.
    driver_waker: Option<Waker>,
    /// A reply is overdue: the connection takes no more commands.
    is_late: bool,
    /// Why the connection takes no more commands.
    ended: Option<RedisError>,
    /// It ended because replies were overdue and no other reply was pending.
    timed_out: bool,
}

/// The receiver of one reply.
#[derive(Debug)]
struct PendingReply {
    /// `None` after the deadline.
    to: Option<oneshot::Sender<Value>>,
    deadline: Option<Instant>,
    /// The number of permits that the command holds.
    capacity: u32,
}

/// The maximum number of pending replies on one connection; further callers wait for a permit (I10).
const CAPACITY: usize = 1_024;
/// A long command takes several permits: one for each so many bytes.
const BYTES_PER_PERMIT: usize = 16 << 10;

// === impl Wire ===

impl Wire {
    /// If replies are pending when it ends, the connection is reset: a command in transit must not arrive
    /// after its caller has given up.
    pub(crate) fn new(
        stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        ending: Ending,
    ) -> Self {
        let shared =
            Arc::new(Shared { buffer: Mutex::default(), capacity: Semaphore::new(CAPACITY) });
        let mut driver = Driver::new(shared.clone(), stream, ending);
        let driver = tokio::spawn(async move {
            let why = poll_fn(|context| driver.poll(context)).await;
            driver.end(why);
        });
        Self { shared, driver: driver.abort_handle() }
    }

    /// Whether the connection takes more commands.
    pub(crate) fn is_open(&self) -> bool {
        let buffer = self.shared.buffer();
        buffer.ended.is_none() && !buffer.is_late
    }

    /// Sends the command that `write` writes, of about `bytes` bytes, and waits for its reply, which may
    /// be an error. After a timeout [`is_open`](Self::is_open) is false, also if the caller has been
    /// dropped meanwhile.
    pub(crate) async fn send_before(
        &self,
        deadline: Instant,
        bytes: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Value, CallError> {
        let capacity = permits_for(bytes);
        match self.shared.capacity.try_acquire_many(capacity) {
            Ok(taken) => taken.forget(),
            Err(_) => Box::pin(self.reserve(capacity, Some(deadline))).await?,
        }
        let answer = {
            let mut buffer = self.shared.buffer();
            buffer.check()?;
            let answer = buffer.expect_reply(Some(deadline), capacity);
            buffer.send(write);
            answer
        };
        self.reply_of(answer).await
    }

    /// Sends one command. The caller enforces a timeout.
    pub(crate) async fn send(&self, write: impl Fn(&mut Vec<u8>)) -> Result<Value, RedisError> {
        let reply_of = self.send_all(1, write).await?.pop();
        reply_of.ok_or_else(closed)
    }

    /// Sends several commands as one contiguous batch. The caller enforces a timeout.
    pub(crate) async fn send_all(
        &self,
        count: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<Value>, RedisError> {
        self.send_batch(None, count, write).await.map_err(|unanswered| match unanswered {
            CallError::Broken(why) => why,
            CallError::QueueFull | CallError::Timeout => closed(),
        })
    }

    /// Sends several commands as one contiguous batch, with a deadline for all of them if there is one.
    pub(crate) async fn send_batch(
        &self,
        deadline: Option<Instant>,
        count: usize,
        write: impl Fn(&mut Vec<u8>),
    ) -> Result<Vec<Value>, CallError> {
        // All permits at once: a caller that is dropped halfway must not keep some of them.
        self.reserve(u32::try_from(count).unwrap_or(u32::MAX), deadline).await?;
        let replies: Vec<_> = {
            let mut buffer = self.shared.buffer();
            buffer.check()?;
            let replies = (0..count).map(|_| buffer.expect_reply(deadline, 1)).collect();
            buffer.send(&write);
            replies
        };
        let mut answers = Vec::with_capacity(count);
        for answer in replies {
            answers.push(self.reply_of(answer).await?);
        }
        Ok(answers)
    }

    /// Waits for permits.
    async fn reserve(&self, capacity: u32, deadline: Option<Instant>) -> Result<(), CallError> {
        let acquiring = self.shared.capacity.acquire_many(capacity);
        let acquired = match deadline {
            None => acquiring.await,
            Some(deadline) => {
                timeout_at(deadline, acquiring).await.map_err(|_| CallError::QueueFull)?
            }
        };
        // If the connection has ended, nothing was sent yet.
        let ended = |_| self.shared.buffer().ended.clone().unwrap_or_else(closed);
        acquired.map_err(ended).map_err(CallError::Broken)?.forget();
        Ok(())
    }

    async fn reply_of(&self, answer: oneshot::Receiver<Value>) -> Result<Value, CallError> {
        answer.await.map_err(|_| self.shared.why())
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // No caller is left. An unresponsive server would keep the connection open.
        self.driver.abort();
    }
}

// === impl Shared ===

impl Shared {
    fn buffer(&self) -> MutexGuard<'_, SendBuffer> {
        // A panic while a command is written leaves half a message, so nothing is sent after it.
        self.buffer.lock().unwrap_or_else(|poisoned| {
            let mut buffer = PoisonError::into_inner(poisoned);
            buffer.ended.get_or_insert_with(closed);
            buffer
        })
    }

    /// Why a call has no reply: if the connection has not ended by itself, the call has timed out.
    fn why(&self) -> CallError {
        let buffer = self.buffer();
        match &buffer.ended {
            Some(why) if !buffer.timed_out => CallError::Broken(why.clone()),
            _ => CallError::Timeout,
        }
    }
}

// === impl SendBuffer ===

impl SendBuffer {
    fn check(&self) -> Result<(), CallError> {
        self.ended.clone().map_or(Ok(()), |why| Err(CallError::Broken(why)))
    }

    /// Registers a pending reply for the next command.
    fn expect_reply(
        &mut self,
        deadline: Option<Instant>,
        capacity: u32,
    ) -> oneshot::Receiver<Value> {
        let (to, answer) = oneshot::channel();
        self.pending.push(PendingReply { to: Some(to), deadline, capacity });
        answer
    }

    fn send(&mut self, write: impl Fn(&mut Vec<u8>)) {
        write(&mut self.out);
        if let Some(driver) = self.driver_waker.take() {
            driver.wake();
        }
    }

    /// Takes all unsent commands.
    fn take(&mut self, bytes: &mut Vec<u8>, pending: &mut impl Extend<PendingReply>) {
        mem::swap(&mut self.out, bytes);
        pending.extend(self.pending.drain(..));
    }
}

// === impl PendingReply ===

impl PendingReply {
    /// Whether a caller still waits for the reply.
    fn is_wanted(&self) -> bool {
        self.to.as_ref().is_some_and(|to| !to.is_closed())
    }

    /// Whether the deadline has passed. The caller then gets an error, and the reply is discarded when it
    /// arrives.
    fn give_up(&mut self, now: Instant) -> bool {
        let is_late = self.deadline.is_some_and(|deadline| deadline <= now) && self.to.is_some();
        if is_late {
            self.to = None;
        }
        is_late
    }
}

/// At most all permits, however long the command is.
fn permits_for(bytes: usize) -> u32 {
    u32::try_from((1 + bytes / BYTES_PER_PERMIT).min(CAPACITY)).unwrap_or(u32::MAX)
}

/// The error when no better reason is known.
fn closed() -> RedisError {
    io::Error::new(io::ErrorKind::BrokenPipe, "the connection was closed").into()
}

#[cfg(test)]
mod tests;
