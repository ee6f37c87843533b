//! The threads that serve. Each has a runtime of its own, and a connection stays where it is: its
//! requests, its upstream connections and its executions never move between threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::Shared;
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
    permit: OwnedSemaphorePermit,
}

// === impl Workers ===

impl Workers {
    /// Starts `count` threads.
    pub(crate) fn start(count: usize, shared: &Shared) -> std::io::Result<Self> {
        let (connections, stop) = (TaskTracker::new(), CancellationToken::new());
        let threads = (0..count.max(1))
            .map(|number| Worker::start(number, shared.clone(), connections.clone(), stop.clone()))
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
            worker.serving.fetch_add(1, Ordering::Relaxed);
            // A thread that ended has nobody to serve.
            let _ = worker.arrivals.send(Arrival { stream, peer, permit });
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
    fn start(
        number: usize,
        shared: Shared,
        connections: TaskTracker,
        stop: CancellationToken,
    ) -> std::io::Result<Self> {
        let (arrivals, queue) = mpsc::unbounded_channel();
        let serving = Arc::new(AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let counter = serving.clone();
        let thread =
            std::thread::Builder::new().name(format!("semel-{number}")).spawn(move || {
                runtime.block_on(async move {
                    let serve = serve(queue, shared, connections, counter);
                    tokio::select! { () = serve => {}, () = stop.cancelled() => {} }
                });
            })?;
        Ok(Self { arrivals, serving, thread })
    }
}

async fn serve(
    mut queue: mpsc::UnboundedReceiver<Arrival>,
    shared: Shared,
    connections: TaskTracker,
    serving: Arc<AtomicUsize>,
) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    loop {
        tokio::select! {
            Some(arrival) = queue.recv() => {
                let (shared, serving) = (shared.clone(), serving.clone());
                connections.spawn(async move {
                    let Arrival { stream, peer, permit } = arrival;
                    match TcpStream::from_std(stream) {
                        Ok(stream) => shared.serve(stream, peer).await,
                        Err(error) => tracing::warn!(%error, "a connection could not be served"),
                    }
                    serving.fetch_sub(1, Ordering::Relaxed);
                    drop(permit);
                });
            }
            _ = tick.tick() => pool::close_unused(shared.stack.load().pool),
        }
    }
}
