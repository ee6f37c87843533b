//! The worker threads. Each has a runtime of its own, and a connection stays on its thread: its requests, its upstream
//! connections and its executions never move between threads.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use semel_log::Throttle;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Level;

use super::Shared;
use crate::client::{ConnectionPermit, watch};
use crate::proxy::pool;

/// The worker threads.
pub(crate) struct Workers {
    threads: Vec<Worker>,
    connections: TaskTracker,
    /// Cancelled when no work is left: the threads end.
    stop: CancellationToken,
}

struct Worker {
    queue: mpsc::UnboundedSender<NewConnection>,
    serving: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

/// A connection that was accepted, for the thread that will serve it.
struct NewConnection {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
}

// === impl Workers ===

impl Workers {
    /// Starts `count` threads.
    pub(crate) fn start(count: usize, shared: &Shared) -> std::io::Result<Self> {
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let threads = (0..count.max(1))
            .map(|number| Worker::start(number, shared.clone(), stop.clone()))
            .collect::<std::io::Result<Vec<_>>>()?;
        Ok(Self { threads, connections, stop })
    }

    /// Hands a connection to the thread that serves the fewest. Permits limit the number of connections, and so the
    /// length of the queues.
    pub(crate) fn hand_over(
        &self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let fewest =
            self.threads.iter().min_by_key(|worker| worker.serving.load(Ordering::Relaxed));
        if let Some(worker) = fewest {
            let permit =
                ConnectionPermit::take(worker.serving.clone(), permit, self.connections.token());
            // A thread that has ended serves no connection.
            let _ = worker.queue.send(NewConnection { stream, peer, permit });
        }
    }

    /// Waits until all connections have ended.
    pub(crate) async fn drained(&self) {
        self.connections.close();
        self.connections.wait().await;
    }

    /// How many connections there are.
    pub(crate) fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Ends the threads, with everything that still runs on them.
    pub(crate) fn stop(self) {
        self.stop.cancel();
        for worker in self.threads {
            // A thread that panicked has ended too.
            let _ = worker.thread.join();
        }
    }
}

// === impl Worker ===

impl Worker {
    fn start(number: usize, shared: Shared, stop: CancellationToken) -> std::io::Result<Self> {
        let (queue, receiver) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread =
            std::thread::Builder::new().name(format!("semel-{number}")).spawn(move || {
                runtime.block_on(async move {
                    tokio::select! { () = serve(receiver, shared) => {}, () = stop.cancelled() => {} }
                });
                // A name lookup in progress must not delay the end.
                runtime.shutdown_background();
            })?;
        Ok(Self { queue, serving: Arc::default(), thread })
    }
}

/// Serves new connections, and checks the deadlines of open ones.
async fn serve(mut queue: mpsc::UnboundedReceiver<NewConnection>, shared: Shared) {
    let began = Instant::now();
    let not_served = Throttle::of("a connection could not be served", Level::WARN);
    let mut wanted = shared.permits.wanted();
    loop {
        let pipeline = shared.pipeline.load();
        let (is_draining, is_closing) =
            (shared.draining.is_cancelled(), shared.closing.is_cancelled());
        watch::check_deadlines(began.elapsed(), is_draining);
        pool::close_unused(pipeline.pool);
        let mut pause = pin!(sleep(watch::pause(pipeline.settings.timeouts)));
        drop(pipeline);
        loop {
            tokio::select! {
                Some(NewConnection { stream, peer, permit }) = queue.recv() => {
                    match TcpStream::from_std(stream) {
                        Ok(stream) => drop(tokio::spawn(shared.clone().serve(stream, peer, permit))),
                        Err(error) => not_served.line(|left_out| {
                            tracing::warn!(%error, left_out, "a connection could not be served");
                        }),
                    }
                }
                () = &mut pause => break,
                // Another thread's request needs the permit of an idle connection. The sender is never dropped.
                Ok(()) = wanted.changed() => pool::close_unused(shared.pipeline.load().pool),
                // These are acted upon before the end of the pause.
                () = shared.draining.cancelled(), if !is_draining => break,
                () = shared.closing.cancelled(), if !is_closing => break,
            }
        }
    }
}
