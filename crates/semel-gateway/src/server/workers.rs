//! The threads that serve. Each has a runtime of its own, and a connection stays where it is: its
//! requests, its upstream connections and its executions never move between threads.

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Shared, watch};
use crate::proxy::pool;

/// The serving threads.
pub(crate) struct Workers {
    threads: Vec<Worker>,
    connections: TaskTracker,
    /// Set when nothing is left to be done: the threads end.
    stop: CancellationToken,
}

struct Worker {
    arrivals: mpsc::UnboundedSender<Arrival>,
    serving: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

/// A client that was let in.
struct Arrival {
    stream: std::net::TcpStream,
    peer: SocketAddr,
    place: Place,
}

/// One client's place among all, given back when dropped: also when it is a tunnel by then.
pub(crate) struct Place {
    serving: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
    /// Keeps the gateway from going down before its time.
    _token: TaskTrackerToken,
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

    /// Hands a client to the thread that serves the fewest. The number of clients is limited by
    /// their permits, so the queues are too.
    pub(crate) fn hand_over(
        &self,
        stream: std::net::TcpStream,
        peer: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let fewest =
            self.threads.iter().min_by_key(|worker| worker.serving.load(Ordering::Relaxed));
        if let Some(worker) = fewest {
            let place = Place::take(worker.serving.clone(), permit, self.connections.token());
            // A thread that ended has nobody to serve.
            let _ = worker.arrivals.send(Arrival { stream, peer, place });
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

    /// Ends the threads, with whatever still runs on them.
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
        let (arrivals, queue) = mpsc::unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread =
            std::thread::Builder::new().name(format!("semel-{number}")).spawn(move || {
                runtime.block_on(async move {
                    tokio::select! { () = serve(queue, shared) => {}, () = stop.cancelled() => {} }
                });
                // A name that is being looked up must not keep the gateway from ending.
                runtime.shutdown_background();
            })?;
        Ok(Self { arrivals, serving: Arc::default(), thread })
    }
}

/// Serves whoever comes, and looks after whoever is there.
async fn serve(mut queue: mpsc::UnboundedReceiver<Arrival>, shared: Shared) {
    let began = Instant::now();
    loop {
        let stack = shared.stack.load();
        let (is_draining, is_closing) =
            (shared.draining.is_cancelled(), shared.closing.is_cancelled());
        watch::look(began.elapsed(), is_draining);
        pool::close_unused(stack.pool);
        let mut pause = pin!(sleep(watch::pause(stack.terms.patience)));
        drop(stack);
        loop {
            tokio::select! {
                Some(Arrival { stream, peer, place }) = queue.recv() => {
                    match TcpStream::from_std(stream) {
                        Ok(stream) => drop(tokio::spawn(shared.clone().serve(stream, peer, place))),
                        Err(error) => tracing::warn!(%error, "a connection could not be served"),
                    }
                }
                () = &mut pause => break,
                // Nobody has to wait for the end of the pause to learn of these.
                () = shared.draining.cancelled(), if !is_draining => break,
                () = shared.closing.cancelled(), if !is_closing => break,
            }
        }
    }
}

// === impl Place ===

impl Place {
    fn take(
        serving: Arc<AtomicUsize>,
        permit: OwnedSemaphorePermit,
        token: TaskTrackerToken,
    ) -> Self {
        serving.fetch_add(1, Ordering::Relaxed);
        Self { serving, _permit: permit, _token: token }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.serving.fetch_sub(1, Ordering::Relaxed);
    }
}
