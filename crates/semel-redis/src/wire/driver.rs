//! The driver: sends commands and distributes replies.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use redis::{RedisError, Value};
use semel_socket::Ending;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

use super::message::read_message;
use super::{PendingReply, Shared, closed};

/// Drives one stream.
pub(super) struct Driver<S> {
    shared: Arc<Shared>,
    stream: S,
    ending: Ending,
    /// The bytes being sent, and how many of them have been.
    sending: Vec<u8>,
    sent: usize,
    is_flushed: bool,
    /// Whether other tasks had a chance to append commands.
    has_yielded: bool,
    /// The read buffer, and received bytes that are not dispatched yet.
    chunk: Box<[u8]>,
    received: Vec<u8>,
    /// The pending replies of commands that were sent or are being sent.
    pending: VecDeque<PendingReply>,
    /// The next deadline check. One timer for all: a timer for each command would cost as much as the
    /// command.
    timer: Option<Pin<Box<Sleep>>>,
}

/// A buffer that a large reply has grown beyond this is dropped.
const BUFFER_KEPT_MAX: usize = 64 << 10;
/// The size of one read.
const READ_BYTES: usize = 16 << 10;
/// The maximum number of bytes without a pending command.
const UNEXPECTED_MAX: usize = 4 << 10;
/// The interval of deadline checks while replies are pending. A timeout is late by at most this.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

// === impl Driver ===

impl<S: AsyncRead + AsyncWrite + Unpin> Driver<S> {
    pub(super) fn new(shared: Arc<Shared>, stream: S, ending: Ending) -> Self {
        Self {
            shared,
            stream,
            ending,
            sending: Vec::new(),
            sent: 0,
            is_flushed: true,
            has_yielded: false,
            chunk: vec![0; READ_BYTES].into(),
            received: Vec::new(),
            pending: VecDeque::new(),
            timer: None,
        }
    }

    /// Runs until the connection fails, and returns the reason.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        // First: tasks that get their reply now may send again at once, in the same write.
        if let Poll::Ready(why) = self.poll_receive(context) {
            return Poll::Ready(why);
        }
        if let Poll::Ready(error) = self.poll_send(context) {
            return Poll::Ready(error.into());
        }
        self.poll_deadlines(context)
    }

    fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            if self.sent == self.sending.len() {
                if let Err(error) = ready!(self.poll_flush(context)) {
                    return Poll::Ready(error);
                }
                ready!(self.poll_take(context));
            }
            let rest = &self.sending[self.sent..];
            match ready!(Pin::new(&mut self.stream).poll_write(context, rest)) {
                Ok(0) => return Poll::Ready(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) => return Poll::Ready(error),
            }
            self.is_flushed = false;
        }
    }

    fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_flushed {
            ready!(Pin::new(&mut self.stream).poll_flush(context))?;
            self.is_flushed = true;
        }
        Poll::Ready(Ok(()))
    }

    /// Takes the next commands to send, once there are any.
    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.sending.capacity() > BUFFER_KEPT_MAX {
            self.sending = Vec::new();
        }
        self.sending.clear();
        self.sent = 0;
        let mut buffer = self.shared.buffer();
        if buffer.out.is_empty() {
            buffer.driver_waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        // Commands seldom come alone: tasks that are ready to send do so before this task's next turn,
        // and one system call sends them all.
        self.has_yielded = !self.has_yielded;
        if self.has_yielded {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        buffer.take(&mut self.sending, &mut self.pending);
        Poll::Ready(())
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        loop {
            match ready!(self.poll_read(context)) {
                Ok(0) => return Poll::Ready(closed()),
                Ok(_) => {}
                Err(error) => return Poll::Ready(error.into()),
            }
            if let Err(error) = self.dispatch() {
                return Poll::Ready(error);
            }
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(&mut self.chunk);
        ready!(Pin::new(&mut self.stream).poll_read(context, &mut buffer))?;
        self.received.extend_from_slice(buffer.filled());
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// Dispatches received replies.
    fn dispatch(&mut self) -> Result<(), RedisError> {
        let (mut read, mut capacity) = (0, 0);
        while let Some((answer, length)) = read_message(&self.received[read..])? {
            let Some(reply) = self.pending.pop_front() else {
                return Err(unexpected_reply(answer));
            };
            read += length;
            capacity += reply.capacity;
            // The caller may have gone.
            let _ = reply.to.map(|to| to.send(answer));
        }
        self.received.drain(..read);
        if self.pending.is_empty() && self.received.len() > UNEXPECTED_MAX {
            return Err(protocol_error("the server sent data without a command"));
        }
        if self.received.is_empty() && self.received.capacity() > BUFFER_KEPT_MAX {
            self.received = Vec::new();
        }
        self.shared.capacity.add_permits(capacity as usize);
        Ok(())
    }

    /// Checks the deadlines while replies are pending.
    fn poll_deadlines(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        loop {
            match &mut self.timer {
                Some(timer) => ready!(timer.as_mut().poll(context)),
                None if self.pending.is_empty() => return Poll::Pending,
                None => {}
            }
            self.timer = None;
            if let Some(ended) = self.give_up() {
                return Poll::Ready(ended);
            }
            if !self.pending.is_empty() {
                self.timer = Some(Box::pin(sleep(CHECK_INTERVAL)));
            }
        }
    }

    /// Expires replies that are overdue, including those of commands that are not sent yet. Other replies
    /// may still arrive, but the connection takes no more commands, and it ends when no reply is pending.
    fn give_up(&mut self) -> Option<RedisError> {
        let now = Instant::now();
        let mut buffer = self.shared.buffer();
        let (mut late, mut is_wanted) = (false, false);
        for reply in self.pending.iter_mut().chain(&mut buffer.pending) {
            late |= reply.give_up(now);
            is_wanted |= reply.is_wanted();
        }
        buffer.is_late |= late;
        if buffer.is_late && !is_wanted && buffer.ended.is_none() {
            buffer.timed_out = true;
            return Some(closed());
        }
        buffer.ended.clone()
    }
}

impl<S> Driver<S> {
    /// Fails all pending and future calls with `why`.
    pub(super) fn end(&mut self, why: RedisError) {
        let pending = {
            let mut buffer = self.shared.buffer();
            buffer.ended.get_or_insert(why);
            std::mem::take(&mut buffer.pending)
        };
        drop(pending);
        if !self.pending.is_empty() {
            self.ending.reset();
        }
        self.pending.clear();
        self.shared.capacity.close();
    }
}

/// The task may also end with the runtime in which the connection was made.
impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.end(closed());
    }
}

/// A server sends nothing without a command, except that it has no capacity for another client. That must
/// not be taken for a reply to the next command.
fn unexpected_reply(message: Value) -> RedisError {
    match message.extract_error() {
        Err(error) => protocol_error(error.to_string()),
        Ok(_) => protocol_error("the server sent a reply without a command"),
    }
}

fn protocol_error(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}
