//! What runs on a node, and can be stopped or ended all at once.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use semel_engine::{Host, HostTask};
use tokio_util::sync::CancellationToken;

use crate::random::Random;
use crate::wakes::{TaskWaker, Wakes};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// One life of a node, as a process has one: everything that runs in it can be paused and resumed,
/// or ended at once at any point.
#[derive(Default)]
pub(crate) struct Gate {
    inner: Mutex<Inner>,
    wakes: Arc<Wakes>,
    /// Set when the node's process ends.
    pub(crate) ended: CancellationToken,
}

#[derive(Default)]
struct Inner {
    /// How many reasons there are to stand still.
    pauses: usize,
    held_up: Vec<Waker>,
    running: Vec<Weak<dyn Endable>>,
}

/// A future on a node; `None` while it is polled, and after it was ended.
struct Running<T>(Mutex<Option<Boxed<T>>>);

trait Endable: Send + Sync {
    /// Takes it away, to be dropped.
    fn end(&self) -> Box<dyn Send>;
}

/// A future that runs only while its node does. It never completes if the node ends first.
struct Gated<T> {
    gate: Arc<Gate>,
    running: Arc<Running<T>>,
    waker: Arc<TaskWaker>,
}

/// The host of a simulated engine.
pub(crate) struct NodeHost {
    gate: Arc<Gate>,
    random: Mutex<Random>,
}

// === impl Gate ===

impl Gate {
    /// For a process that begins.
    pub(crate) fn open() -> Arc<Self> {
        let gate = Arc::new(Self::default());
        let (ended, wakes) = (gate.ended.clone(), gate.wakes.clone());
        tokio::spawn(async move { ended.run_until_cancelled_owned(wakes.pass_on()).await });
        gate
    }

    /// The same future, for as long as the node runs.
    pub(crate) fn keep<T, F>(
        self: &Arc<Self>,
        future: F,
    ) -> impl Future<Output = T> + Send + 'static + use<T, F>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        self.keep_boxed(Box::pin(future))
    }

    fn keep_boxed<T: Send + 'static>(self: &Arc<Self>, future: Boxed<T>) -> Gated<T> {
        let running = Arc::new(Running(Mutex::new(Some(future))));
        let endable: Arc<dyn Endable> = running.clone();
        let mut inner = self.inner();
        if inner.running.len() == inner.running.capacity() {
            inner.running.retain(|running| running.strong_count() > 0);
        }
        inner.running.push(Arc::downgrade(&endable));
        Gated { gate: self.clone(), running, waker: self.wakes.waker() }
    }

    pub(crate) fn pause(&self) {
        self.inner().pauses += 1;
    }

    pub(crate) fn resume(&self) {
        let mut inner = self.inner();
        inner.pauses = inner.pauses.saturating_sub(1);
        if inner.pauses == 0 {
            let held_up = std::mem::take(&mut inner.held_up);
            drop(inner);
            held_up.into_iter().for_each(Waker::wake);
        }
    }

    /// Ends everything that runs here, at once; or by mistake leaves it where it stands.
    pub(crate) fn end(&self, is_left_behind: bool) {
        self.ended.cancel();
        let running = std::mem::take(&mut self.inner().running);
        for running in running.iter().filter_map(Weak::upgrade) {
            let ended = running.end();
            if is_left_behind {
                std::mem::forget(ended);
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Running ===

impl<T> Running<T> {
    fn lock(&self) -> MutexGuard<'_, Option<Boxed<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: 'static> Endable for Running<T> {
    fn end(&self) -> Box<dyn Send> {
        Box::new(self.lock().take())
    }
}

// === impl Gated ===

impl<T> Future for Gated<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let mut inner = self.gate.inner();
        if inner.pauses > 0 {
            inner.held_up.push(context.waker().clone());
            return Poll::Pending;
        }
        drop(inner);
        // Out of its place while it is polled: it may panic, or access its node.
        let Some(mut future) = self.running.lock().take() else {
            return Poll::Pending;
        };
        self.waker.follow(context.waker());
        let waker = Waker::from(self.waker.clone());
        let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
        if polled.is_pending() && !self.gate.ended.is_cancelled() {
            *self.running.lock() = Some(future);
        }
        polled
    }
}

// === impl NodeHost ===

impl NodeHost {
    pub(crate) fn new(gate: Arc<Gate>, random: Random) -> Self {
        Self { gate, random: Mutex::new(random) }
    }
}

impl Host for NodeHost {
    fn spawn(&self, task: HostTask) {
        tokio::spawn(self.gate.keep_boxed(task));
    }

    fn random(&self) -> u64 {
        self.random.lock().unwrap_or_else(PoisonError::into_inner).next()
    }
}
