use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use semel_core::{Attempt, Fingerprint, Outcome, Policy, RecordId};
use semel_store::{Store, StoreError, StoreFuture};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::answer::Caller;
use crate::claiming::Claimant;
use crate::detached::Errand;
use crate::execution::{self, Work};
use crate::host::{Host, TokioHost};
use crate::limits::Slots;
use crate::outage::Outages;
use crate::registry::Registry;
use crate::{Answer, EngineError, Execution, Limits};

/// Drives attempts over a store. Cheap to clone; clones share everything.
///
/// Use one engine per process and store. An engine never claims past an execution or settlement of its own, however
/// long the store was away, and wakes its own duplicates at once. A second engine over the same store is to it what
/// another process is: it may take over once a lease has run out, and its duplicates poll.
pub struct Engine<S> {
    store: Arc<S>,
    shared: Arc<Shared>,
}

/// What a shutdown left behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "work that was left may still take effect, and its outcome may get lost"]
pub struct ShutdownReport {
    /// How many attempts were still being executed or settled when the deadline passed. They go
    /// on for as long as the runtime lives.
    pub left: usize,
}

/// What all attempts of one engine share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
    pub(crate) executions: Slots,
    pub(crate) waiters: Slots,
    pub(crate) registry: Arc<Registry>,
    pub(crate) host: Box<dyn Host>,
    outages: Outages,
    /// Set when the shutdown begins.
    pub(crate) closing: CancellationToken,
    tasks: TaskTracker,
}

// === impl Engine ===

impl<S: Store> Engine<S> {
    /// An engine over `store`, with the default limits.
    pub fn new(store: S) -> Self {
        Self::with_limits(store, Limits::default())
    }

    /// An engine over `store`, with these limits.
    pub fn with_limits(store: S, limits: Limits) -> Self {
        Self::with_host(store, limits, TokioHost)
    }

    /// An engine over `store`, with these limits, on a [host](Host) of the caller's.
    pub fn with_host(store: S, limits: Limits, host: impl Host) -> Self {
        let store = Arc::new(store);
        let shared = Arc::new(Shared {
            store: store.clone(),
            limits,
            executions: Slots::new(limits.executions_max),
            waiters: Slots::new(limits.waiters_max),
            registry: Arc::default(),
            host: Box::new(host),
            outages: Outages::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Self { store, shared }
    }

    /// One arrival of a request on the record `id`, with an owner of its own.
    pub fn attempt(&self, id: RecordId, fingerprint: Fingerprint) -> Attempt {
        Attempt::new(id, fingerprint, self.shared.host.owner())
    }

    /// Executes `work` unless the record of `attempt` says otherwise, and answers.
    ///
    /// The attempt is taken by value, since an owner must never be used twice: for a retry, make
    /// another [`attempt`](Self::attempt). The [crate's page](crate) has an example.
    ///
    /// # Errors
    ///
    /// See [`EngineError`]. Nothing was executed, but for [`EngineError::Interrupted`]. What the
    /// work itself failed at is an [`Outcome`], never an error.
    ///
    /// # Cancel-safety
    ///
    /// From its first poll on, everything runs in a task of the engine's (I9, trap 3): a caller
    /// who drops this future loses only the answer. The claim is made all the same, the work
    /// is executed to its end if the claim is granted, and its outcome is settled. Only a
    /// duplicate that waits for another execution stops waiting.
    ///
    /// # Panics
    ///
    /// Outside of a Tokio runtime with time enabled. A panic of the work is caught and means
    /// [`Outcome::Unknown`] with an empty reply.
    pub fn once<W, F>(
        &self,
        attempt: Attempt,
        policy: &Policy,
        work: W,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + use<S, W, F>
    where
        W: FnOnce(Execution) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        // Boxed here already: it may be large, and the future would have room for it twice.
        let work = execution::pack(work);
        self.shared.clone().once(attempt, policy.clone(), work)
    }

    /// Whether this engine executes the record, or settles it, at the moment.
    pub fn executes(&self, id: RecordId) -> bool {
        self.shared.registry.executes(id)
    }

    /// How many attempts are being claimed, executed or settled, in the background included.
    pub fn running(&self) -> usize {
        self.shared.executions.taken()
    }

    /// How many duplicates are waiting for an outcome.
    pub fn waiting(&self) -> usize {
        self.shared.waiters.taken()
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Refuses new attempts, and waits until all running work has ended and is settled, for at
    /// most `deadline`.
    ///
    /// From now on [`once`](Self::once) returns [`EngineError::ShuttingDown`] without touching
    /// the store, and duplicates that wait are answered [`Answer::InFlight`]. There is no way
    /// back. May be called again, to wait longer.
    ///
    /// # Cancel-safety
    ///
    /// Dropping the future only stops the waiting.
    pub async fn shutdown(&self, deadline: Duration) -> ShutdownReport {
        let tasks = &self.shared.tasks;
        self.shared.closing.cancel();
        tasks.close();
        // Either way the number that is left tells.
        let _ = timeout(deadline, tasks.wait()).await;
        let report = ShutdownReport { left: tasks.len() };
        tracing::info!(left = report.left, "the engine is shut down");
        report
    }
}

impl<S> Clone for Engine<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), shared: self.shared.clone() }
    }
}

impl<S> fmt::Debug for Engine<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.shared.limits)
            .field("running", &self.shared.executions.taken())
            .field("waiting", &self.shared.waiters.taken())
            .finish_non_exhaustive()
    }
}

// === impl Shared ===

impl Shared {
    async fn once(
        self: Arc<Self>,
        attempt: Attempt,
        policy: Policy,
        work: Work,
    ) -> Result<Answer, EngineError> {
        // In this order: whoever is not seen by `shutdown`, which first closes and then waits for
        // tokens, sees it closing.
        let token = self.tasks.token();
        if self.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if let Some(answer) = self.store.recall(&attempt).and_then(Answer::recalled) {
            answer.log(attempt.id());
            return Ok(answer);
        }
        let answer = self.send_off(attempt, policy, work, token)?;
        answer.await.unwrap_or(Err(EngineError::Interrupted))
    }

    /// Starts an attempt in a task of its own.
    fn send_off(
        self: &Arc<Self>,
        attempt: Attempt,
        policy: Policy,
        work: Work,
        token: TaskTrackerToken,
    ) -> Result<oneshot::Receiver<Result<Answer, EngineError>>, EngineError> {
        let max = self.executions.max();
        let slot = self.executions.take().ok_or_else(|| {
            tracing::warn!(record = %attempt.id().prefix(), max, "too many executions");
            EngineError::TooManyExecutions { max }
        })?;
        let (sender, answer) = oneshot::channel();
        let errand = Errand {
            caller: Caller::new(attempt.id(), sender),
            claimant: Claimant::new(self.clone(), attempt, policy),
            slot: Some(slot),
            token,
        };
        // Boxed: a task's future is moved several times while it is spawned, and this one is large.
        self.host.spawn(Box::pin(errand.run(work)));
        Ok(answer)
    }

    /// The longest pause between two tries of a verb that a lease depends on: while a holder pauses, another
    /// process may be granted a lease that has run out.
    pub(crate) const RETRY_MAX: Duration = Duration::from_secs(1);

    /// One call of a verb, which counts as timed out after `limit`: the engine never hangs with a
    /// store that does (trap 14).
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        verb: &str,
        id: RecordId,
        mut call: StoreFuture<'_, T>,
    ) -> Result<T, StoreError> {
        let part = self.store.part(id);
        // Set only once there is something to wait for: a store in this process mostly answers at
        // once. Boxed, as it is large, and every future that makes a call would have room for it.
        let mut alarm = None;
        let answer = poll_fn(|context| {
            if let Poll::Ready(answer) = call.as_mut().poll(context) {
                return Poll::Ready(answer);
            }
            let alarm = alarm.get_or_insert_with(|| Box::pin(sleep(limit)));
            alarm.as_mut().poll(context).map(|()| Err(StoreError::deadline(verb, limit)))
        })
        .await;
        self.outages.note(part, &answer);
        answer
    }

    /// Pauses before a verb is tried again; less long if what has the record turns out to be back.
    pub(crate) async fn rest(&self, id: RecordId, pause: Duration) {
        // The time-out is what is waited for; the end of the outage is a reason not to.
        let _ = timeout(pause, self.outages.end(self.store.part(id))).await;
    }
}
