//! The one who sends, and hands out answers.

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
use super::{Asker, Shared, closed};

/// Sends and receives on one stream.
pub(super) struct Driver<S> {
    shared: Arc<Shared>,
    stream: S,
    ending: Ending,
    /// What is being sent, and how much of it was.
    sending: Vec<u8>,
    sent: usize,
    is_flushed: bool,
    /// Did others get a chance to ask as well?
    has_paused: bool,
    /// What a read brings, and what is not handed out yet.
    chunk: Box<[u8]>,
    received: Vec<u8>,
    /// Those who asked what was sent, or is being sent.
    askers: VecDeque<Asker>,
    /// When the time is looked at next. One timer for all: each would cost as much as its question.
    look: Option<Pin<Box<Sleep>>>,
}

/// A buffer that a large reply made larger is not kept.
const KEPT_BYTES: usize = 64 << 10;
/// So much is read at once.
const READ_BYTES: usize = 16 << 10;
/// More than this is not said unasked.
const UNASKED_BYTES: usize = 4 << 10;
/// How often the time is looked at, while somebody waits. Answers are given up so much later at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);

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
            has_paused: false,
            chunk: vec![0; READ_BYTES].into(),
            received: Vec::new(),
            askers: VecDeque::new(),
            look: None,
        }
    }

    /// Goes on until the connection is of no more use, and says why.
    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        // First: those who are answered may ask again, and go along.
        if let Poll::Ready(why) = self.poll_receive(context) {
            return Poll::Ready(why);
        }
        if let Poll::Ready(error) = self.poll_send(context) {
            return Poll::Ready(error.into());
        }
        self.poll_look(context)
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

    /// Takes what is to be sent next, once there is something.
    fn poll_take(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.sending.capacity() > KEPT_BYTES {
            self.sending = Vec::new();
        }
        self.sending.clear();
        self.sent = 0;
        let mut desk = self.shared.desk();
        if desk.outbox.is_empty() {
            desk.sleeper = Some(context.waker().clone());
            return Poll::Pending;
        }
        // One question seldom comes alone: tasks that are ready to ask do so before this one's next turn,
        // and one system call sends them all.
        self.has_paused = !self.has_paused;
        if self.has_paused {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        desk.take(&mut self.sending, &mut self.askers);
        Poll::Ready(())
    }

    fn poll_receive(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        loop {
            match ready!(self.poll_read(context)) {
                Ok(0) => return Poll::Ready(closed()),
                Ok(_) => {}
                Err(error) => return Poll::Ready(error.into()),
            }
            if let Err(error) = self.hand_out() {
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

    /// Hands out what was received.
    fn hand_out(&mut self) -> Result<(), RedisError> {
        let (mut read, mut room) = (0, 0);
        while let Some((answer, length)) = read_message(&self.received[read..])? {
            let Some(asker) = self.askers.pop_front() else {
                return Err(unasked(answer));
            };
            read += length;
            room += asker.room;
            // Whoever gave up waiting does not want it.
            let _ = asker.to.map(|to| to.send(answer));
        }
        self.received.drain(..read);
        if self.askers.is_empty() && self.received.len() > UNASKED_BYTES {
            return Err(odd("the server says much unasked"));
        }
        if self.received.is_empty() && self.received.capacity() > KEPT_BYTES {
            self.received = Vec::new();
        }
        self.shared.room.add_permits(room as usize);
        Ok(())
    }

    /// Looks at the time, for as long as somebody waits.
    fn poll_look(&mut self, context: &mut Context<'_>) -> Poll<RedisError> {
        loop {
            match &mut self.look {
                Some(look) => ready!(look.as_mut().poll(context)),
                None if self.askers.is_empty() => return Poll::Pending,
                None => {}
            }
            self.look = None;
            if let Some(ended) = self.give_up() {
                return Poll::Ready(ended);
            }
            if !self.askers.is_empty() {
                self.look = Some(Box::pin(sleep(LOOK_EVERY)));
            }
        }
    }

    /// Tells those whose time is over, also those whose question could not even be sent. The answers of the
    /// others may still come, but nobody should ask here any more; and when nobody waits, it ends.
    fn give_up(&mut self) -> Option<RedisError> {
        let now = Instant::now();
        let mut desk = self.shared.desk();
        let (mut late, mut waits) = (false, false);
        for asker in self.askers.iter_mut().chain(&mut desk.askers) {
            late |= asker.give_up(now);
            waits |= asker.waits();
        }
        desk.is_late |= late;
        if desk.is_late && !waits && desk.ended.is_none() {
            desk.is_given_up = true;
            return Some(closed());
        }
        desk.ended.clone()
    }
}

impl<S> Driver<S> {
    /// Whoever still waits, or asks from now on, is told why in vain.
    pub(super) fn end(&mut self, why: RedisError) {
        let askers = {
            let mut desk = self.shared.desk();
            desk.ended.get_or_insert(why);
            std::mem::take(&mut desk.askers)
        };
        drop(askers);
        if !self.askers.is_empty() {
            self.ending.reset();
        }
        self.askers.clear();
        self.shared.room.close();
    }
}

/// Its task may also end without its doing: with the runtime of whoever connected.
impl<S> Drop for Driver<S> {
    fn drop(&mut self) {
        self.end(closed());
    }
}

/// A server says nothing by itself, but that it has no place for us. It is nobody's answer, so nobody may
/// take it for one.
fn unasked(said: Value) -> RedisError {
    match said.extract_error() {
        Err(error) => odd(error.to_string()),
        Ok(_) => odd("the server said something unasked"),
    }
}

fn odd(what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> RedisError {
    io::Error::new(io::ErrorKind::InvalidData, what).into()
}
