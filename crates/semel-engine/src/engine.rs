use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Fingerprint, Outcome, Policy, RecordId};
use semel_store::Store;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::answer::{self, Caller};
use crate::claiming::ClaimState;
use crate::context::EngineContext;
use crate::detached::AttemptTask;
use crate::execution::{self, Work};
use crate::host::{Host, TokioHost};
use crate::{Answer, EngineError, Execution, Limits, Quota};

/// Drives attempts over a store. Cheap to clone; clones share everything.
///
/// Use one engine per process and store. An engine never claims past an execution or settlement of its own, however
/// long an outage lasts, and wakes its own duplicates at once. A second engine over the same store behaves like
/// another process: it may take over once a lease has run out, and its duplicates poll.
#[derive(Clone)]
pub struct Engine(Arc<EngineContext>);

/// The result of a shutdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "work that was left may still take effect, and its outcome may get lost"]
pub struct ShutdownReport {
    /// How many attempts were still being executed or settled when the deadline passed. They go
    /// on for as long as the runtime lives.
    pub left: usize,
}

// === impl Engine ===

impl Engine {
    /// An engine over `store`, with the default limits.
    pub fn new(store: impl Store) -> Self {
        Self::with_limits(store, Limits::default())
    }

    /// An engine over `store`, with these limits.
    pub fn with_limits(store: impl Store, limits: Limits) -> Self {
        Self::with_host(store, limits, TokioHost)
    }

    /// An engine over `store`, with these limits, on a [host](Host) of the caller's.
    pub fn with_host(store: impl Store, limits: Limits, host: impl Host) -> Self {
        Self(Arc::new(EngineContext::new(store, limits, host)))
    }

    /// One arrival of a request on the record `id`, with an owner of its own.
    pub fn attempt(&self, id: RecordId, fingerprint: Fingerprint) -> Attempt {
        Attempt::new(id, fingerprint, self.0.host.owner())
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
    /// that drops this future loses only the answer. The claim is made all the same, the work
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
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + use<W, F>
    where
        W: FnOnce(Execution) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        self.once_within(attempt, policy, None, work)
    }

    /// [`once`](Self::once), unless the attempt's scope has used up its quota: then nothing is claimed, and no lease
    /// or record is left behind.
    ///
    /// Only executions count, each from before its claim until its outcome is settled. An attempt whose record is
    /// settled or in flight is answered as usual, even if the scope has used up its quota: the record is then read
    /// instead of claimed. A claim that is under way counts until it is answered, so a scope that is close to its limit
    /// may be refused for a moment while it sends many retries.
    ///
    /// An abandoned record cannot be distinguished from one in progress without a claim, so it is answered
    /// [`InFlight`](Answer::InFlight) until the quota has a permit left.
    ///
    /// # Errors
    ///
    /// [`EngineError::TooManyKeys`], besides those of `once`.
    ///
    /// ```
    /// use semel_core::{Fingerprint, Key, Outcome, Policy, RecordId, Reply, Scope};
    /// use semel_engine::{Engine, EngineError, Quota, ScopeLimits};
    /// use semel_store::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let engine = Engine::new(MemoryStore::new());
    /// let limits = ScopeLimits { executions_max: 20, ..ScopeLimits::default() };
    /// let quota = Quota::of("customer-7", limits);
    /// let scope = Scope::new([("who", "customer-7"), ("what", "POST /v1/charges")]);
    /// let id = RecordId::new("shop", &scope, &Key::parse("order-12345")?);
    /// let attempt = engine.attempt(id, Fingerprint::new([("body", "100")]));
    /// let work = |_| async { Outcome::Completed(Reply::new("charged")) };
    /// match engine.once_within(attempt, &Policy::default(), Some(quota), work).await {
    ///     Err(EngineError::TooManyKeys(why)) => println!("come again later: {why}"),
    ///     answered => println!("{:?}", answered?),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn once_within<W, F>(
        &self,
        attempt: Attempt,
        policy: &Policy,
        quota: Option<Quota>,
        work: W,
    ) -> impl Future<Output = Result<Answer, EngineError>> + Send + use<W, F>
    where
        W: FnOnce(Execution) -> F + Send + 'static,
        F: Future<Output = Outcome> + Send + 'static,
    {
        // Boxed here already: it may be large, and the future would have room for it twice.
        let work = execution::pack(work);
        self.clone().drive(attempt, policy.clone(), quota, work)
    }

    /// Recalls the answer from a cache of the store, or spawns the attempt and waits for its answer.
    async fn drive(
        self,
        attempt: Attempt,
        policy: Policy,
        quota: Option<Quota>,
        work: Work,
    ) -> Result<Answer, EngineError> {
        let context = self.0;
        // The order matters: `shutdown` first closes and then waits for tokens, so an attempt whose token it
        // does not wait for sees it closing.
        let token = context.tasks.token();
        if context.closing.is_cancelled() {
            return Err(EngineError::ShuttingDown);
        }
        if let Some(answer) = context.store.cached_claim(&attempt).and_then(answer::recalled) {
            answer::log(&answer, attempt.id(), &context.lines);
            return Ok(answer);
        }
        let claim = ClaimState::new(context.clone(), attempt, policy, quota);
        let answer = spawn(&context, claim, work, token)?;
        answer.await.unwrap_or(Err(EngineError::Interrupted))
    }

    /// Whether this engine executes the record, or settles it, at the moment.
    pub fn executes(&self, id: RecordId) -> bool {
        self.0.registry.executes(id)
    }

    /// How many attempts are being claimed, executed or settled, in the background included.
    pub fn running(&self) -> usize {
        self.0.executions.taken()
    }

    /// How many duplicates are waiting for an outcome.
    pub fn waiting(&self) -> usize {
        self.0.waiters.taken()
    }

    /// The store.
    pub fn store(&self) -> &dyn Store {
        &*self.0.store
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
        let tasks = &self.0.tasks;
        self.0.closing.cancel();
        tasks.close();
        // The report has the number of tasks that are left, after a timeout as well.
        let _ = timeout(deadline, tasks.wait()).await;
        let report = ShutdownReport { left: tasks.len() };
        tracing::info!(left = report.left, "the engine is shut down");
        report
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("limits", &self.0.limits)
            .field("running", &self.0.executions.taken())
            .field("waiting", &self.0.waiters.taken())
            .finish_non_exhaustive()
    }
}

/// Starts an attempt in a task of its own.
fn spawn(
    context: &EngineContext,
    claim: ClaimState,
    work: Work,
    token: TaskTrackerToken,
) -> Result<oneshot::Receiver<Result<Answer, EngineError>>, EngineError> {
    let max = context.executions.max();
    let slot = context.executions.take().ok_or_else(|| {
        context.lines.too_many.line(|left_out| {
            let record = claim.id().prefix();
            tracing::warn!(record, max, left_out, "too many executions");
        });
        EngineError::TooManyExecutions { max }
    })?;
    let (sender, answer) = oneshot::channel();
    let caller = Caller::new(claim.id(), context.lines.clone(), sender);
    let task = AttemptTask { claim, caller, slot: Some(slot), token };
    // Boxed: a task's future is moved several times while it is spawned, and this one is large.
    context.host.spawn(Box::pin(task.run(work)));
    Ok(answer)
}
