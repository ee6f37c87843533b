use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;
use semel_core::{Fence, Outcome, RecordId, Reply, Timestamp};
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::lines::Lines;

/// The handle that the work gets to its execution: the fence, and whether the lease is lost. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Execution {
    id: RecordId,
    lease: Option<(Fence, Timestamp)>,
    lost: CancellationToken,
}

/// The work of one attempt, ready to be started once.
pub(crate) type Work = Box<dyn FnOnce(Execution) -> JoinHandle<Outcome> + Send>;

/// Packs the work so that it starts in a task of its own: a panic of the work ends only that task, and work that
/// blocks its thread does not delay the renewals of its lease, unless the runtime has only that thread.
pub(crate) fn pack<W, F>(work: W) -> Work
where
    W: FnOnce(Execution) -> F + Send + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    Box::new(|execution| {
        // Boxed, since it may be large and would be moved several times.
        tokio::spawn(Box::pin(Start::Waiting { work: Some((work, execution)) }).in_current_span())
    })
}

pin_project! {
    /// Work that starts at its first poll: the closure is called inside the task too, since it may block
    /// or panic as well. The closure and its future share memory, as they never exist together.
    #[project = StartProjection]
    enum Start<W, F> {
        Waiting { work: Option<(W, Execution)> },
        Running { #[pin] future: F },
    }
}

// === impl Start ===

impl<W: FnOnce(Execution) -> F, F: Future> Future for Start<W, F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        if let StartProjection::Waiting { work } = self.as_mut().project() {
            let (work, execution) = work.take().expect("it is started once");
            let future = work(execution);
            self.set(Self::Running { future });
        }
        match self.project() {
            StartProjection::Running { future } => future.poll(context),
            StartProjection::Waiting { .. } => unreachable!("it was started"),
        }
    }
}

/// The outcome of the work. A panic means unknown: it may have come before or after the effect.
pub(crate) fn outcome_of(
    id: RecordId,
    ended: Result<Outcome, JoinError>,
    lines: &Lines,
) -> Outcome {
    ended.unwrap_or_else(|error| {
        // The panic's message is not logged: it may contain data of the request (trap 24).
        let (record, panicked) = (id.prefix(), error.is_panic());
        lines.panicked.line(|left_out| {
            tracing::error!(record, panicked, left_out, "the work ended without an outcome");
        });
        Outcome::Unknown(Reply::default())
    })
}

// === impl Execution ===

impl Execution {
    /// An execution under a lease. `lost` is cancelled when the lease no longer holds.
    pub(crate) const fn leased(
        id: RecordId,
        fence: Fence,
        expires: Timestamp,
        lost: CancellationToken,
    ) -> Self {
        Self { id, lease: Some((fence, expires)), lost }
    }

    /// An execution without protection.
    pub(crate) fn bypassed(id: RecordId) -> Self {
        Self { id, lease: None, lost: CancellationToken::new() }
    }

    /// The fence to pass on to the system that performs the effect, so that it can refuse an outdated
    /// execution (trap 17). `None` if the work is executed without protection.
    pub fn fence(&self) -> Option<Fence> {
        self.lease.map(|(fence, _)| fence)
    }

    /// Until when the outcome will be replayed, on the store's clock, as known when the execution
    /// began. `None` if the work is executed without protection.
    pub fn expires(&self) -> Option<Timestamp> {
        self.lease.map(|(_, expires)| expires)
    }

    /// The part of the record's id that may be shown in logs.
    pub fn record_prefix(&self) -> String {
        self.id.prefix()
    }

    /// Whether the lease is no longer reliable.
    ///
    /// A renewal was refused, or the lease ran out before it could be renewed. Another execution may
    /// be running by now. Work that can stop should; work that cannot goes on, and its outcome
    /// counts only if no other execution has replaced it.
    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Completes when [`is_lost`](Self::is_lost) becomes true, which may be never. Cancel-safe.
    pub async fn lost(&self) {
        self.lost.cancelled().await;
    }
}
