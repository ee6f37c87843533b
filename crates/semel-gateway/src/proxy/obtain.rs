//! A connection for a request that found none idle: one that becomes idle or a new one, whichever is first.

use std::sync::Arc;
use std::task::{Context, Waker};

use semel_store::is_exhausted;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

use super::exchange::ExchangeTimeouts;
use super::permits::{Local, NoPermit, Opening};
use super::pool::Pool;
use super::upstream::{ConnectError, Upstream, UpstreamConnection};
use crate::failure::{Busy, Failure};
use crate::limit::Limit;

/// Waits for a connection. Returns whether it is new.
///
/// A request that waits here may hold a lease. Nothing has been sent, so a failure releases its key; and the wait is
/// limited by the connect timeout.
pub(super) async fn obtain(
    upstream: &Arc<Upstream>,
    pool: Pool,
    timeouts: &ExchangeTimeouts,
) -> Result<(Box<UpstreamConnection>, bool), Failure> {
    let local = Local::begin(pool.id);
    let mut waiter = pool.wait(local);
    let until = timeouts.deadline.min(local.since + upstream.connect_timeout);
    let opening = tokio::select! {
        biased;
        connection = waiter.connection() => return Ok((connection, false)),
        opening = upstream.permits.opening(local, until) => {
            opening.map_err(|NoPermit| too_many(upstream.permits.max()))?
        }
    };
    let mut opened = Opened::begin(upstream.clone(), pool, opening);
    tokio::select! {
        biased;
        connection = waiter.connection() => Ok((connection, false)),
        opened = timeout_at(timeouts.deadline, &mut opened.result) => match opened {
            Ok(Ok(Ok(connection))) => Ok((connection, true)),
            Ok(Ok(Err(error))) => Err(failed(&error)),
            // The task that opens it ends only with the runtime.
            Ok(Err(_)) => Err(Failure::NotSent("the gateway goes down".to_owned())),
            Err(_) => Err(failed(&ConnectError::TimedOut(timeouts.limit))),
        }
    }
}

/// A connection that is being opened in a task of its own. If its request gets another meanwhile, it goes to the pool.
struct Opened {
    pool: Pool,
    result: oneshot::Receiver<Result<Box<UpstreamConnection>, ConnectError>>,
}

// === impl Opened ===

impl Opened {
    fn begin(upstream: Arc<Upstream>, pool: Pool, opening: Opening) -> Self {
        let (sender, result) = oneshot::channel();
        tokio::spawn(async move {
            if let Err(Ok(connection)) = sender.send(upstream.connect(opening).await) {
                put_unused(connection, pool);
            }
        });
        Self { pool, result }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        self.result.close();
        // It was opened, and its request got another.
        if let Ok(Ok(connection)) = self.result.try_recv() {
            put_unused(connection, self.pool);
        }
    }
}

/// Returns a connection to the pool on which nothing was sent.
fn put_unused(mut connection: Box<UpstreamConnection>, pool: Pool) {
    // hyper reports it as ready once it has been polled.
    connection.drive(&mut Context::from_waker(Waker::noop()));
    pool.put(connection);
}

/// Why a connection could not be opened.
pub(super) fn failed(error: &ConnectError) -> Failure {
    match error {
        ConnectError::Io(io) if is_exhausted(io) => {
            Limit::Descriptors.reached();
            Failure::Busy(Busy::Descriptors)
        }
        error => Failure::NotSent(error.to_string()),
    }
}

pub(super) fn too_many(max: usize) -> Failure {
    Limit::UpstreamConnections.reached();
    Failure::Busy(Busy::UpstreamConnections { max })
}

#[cfg(test)]
mod tests;
