//! Shared support of the tests: keys, work that counts its runs, and waits for conditions.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::{
    Fingerprint, InFlight, Outcome, Policy, PolicyBuilder, RecordId, Reply, Settlement, State,
    Timestamp,
};
use semel_engine::{Answer, Engine, EngineError, Execution, Limits};
use semel_store::scripted::ScriptedStore;
use semel_store::{Clock, MemoryStore, Store};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use semel_store::scripted::{Fault, Logs, Verb};

pub(crate) type Answered = Result<Answer, EngineError>;

pub(crate) const LEASE: Duration = Duration::from_secs(3);
pub(crate) const RECORD: RecordId = RecordId::from_bytes([7; 32]);

/// A store's clock that follows Tokio's, which tests can pause.
#[derive(Debug)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(1_000_000).plus(self.0.elapsed())
    }
}

pub(crate) fn memory() -> MemoryStore {
    MemoryStore::with_clock(Arc::new(TokioClock(Instant::now())))
}

/// An engine over a scripted store of its own.
pub(crate) fn engine() -> (Engine, Arc<ScriptedStore>) {
    engine_over(&memory())
}

/// A node: an engine with its own view of a store that other nodes use too.
pub(crate) fn engine_over(memory: &MemoryStore) -> (Engine, Arc<ScriptedStore>) {
    limited(memory, Limits::default())
}

/// The same with limits of its own.
pub(crate) fn limited(memory: &MemoryStore, limits: Limits) -> (Engine, Arc<ScriptedStore>) {
    let store = Arc::new(ScriptedStore::over(memory.clone()));
    (engine_with(store.clone(), limits), store)
}

/// An engine over any store, whose log lines can be captured: see [`Logs::install`].
pub(crate) fn engine_with(store: impl Store, limits: Limits) -> Engine {
    Logs::install();
    Engine::with_limits(store, limits)
}

pub(crate) fn policy() -> PolicyBuilder {
    Policy::builder().lease(LEASE)
}

pub(crate) fn conflict() -> Policy {
    policy().build().unwrap()
}

pub(crate) fn wait(timeout: Duration) -> Policy {
    policy().in_flight(InFlight::Wait(timeout)).build().unwrap()
}

pub(crate) fn fingerprint(body: &str) -> Fingerprint {
    Fingerprint::new([("body", body)])
}

pub(crate) fn completed(reply: &str) -> Outcome {
    Outcome::Completed(Reply::new(reply.to_owned()))
}

pub(crate) fn settled(reply: &str) -> Settlement {
    Settlement::Completed(Reply::new(reply.to_owned()))
}

/// Makes an attempt on [`RECORD`] with the usual request.
pub(crate) async fn once<W, F>(engine: &Engine, policy: &Policy, work: W) -> Answered
where
    W: FnOnce(Execution) -> F + Send + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let attempt = engine.attempt(RECORD, fingerprint("request"));
    engine.once(attempt, policy, work).await
}

/// The same in a task of its own.
pub(crate) fn spawn_once<W, F>(engine: &Engine, policy: &Policy, work: W) -> JoinHandle<Answered>
where
    W: FnOnce(Execution) -> F + Send + 'static,
    F: Future<Output = Outcome> + Send + 'static,
{
    let (engine, policy) = (engine.clone(), policy.clone());
    tokio::spawn(async move { once(&engine, &policy, work).await })
}

/// Waits until a condition holds, which must happen within a minute.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let wait = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_mins(1), wait).await;
    assert!(waited.is_ok(), "never happened: {what}");
}

/// Waits until no attempt runs and no duplicate waits.
pub(crate) async fn idle(engine: &Engine) {
    until("the engine is idle", || engine.running() == 0 && engine.waiting() == 0).await;
}

/// Lets every task that is ready run for a while, without time passing.
pub(crate) async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// The state of [`RECORD`].
pub(crate) async fn state(memory: &MemoryStore) -> Option<State> {
    memory.inspect(RECORD).await.unwrap().map(|record| record.state)
}

/// Work that counts its runs, and may have a gate before its end.
#[derive(Clone, Default)]
pub(crate) struct Effect {
    runs: Arc<AtomicUsize>,
    gate: Option<CancellationToken>,
}

impl Effect {
    /// Work that ends at once.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Work that goes on until [`finish`](Self::finish).
    pub(crate) fn gated() -> Self {
        Self { runs: Arc::default(), gate: Some(CancellationToken::new()) }
    }

    pub(crate) fn finish(&self) {
        self.gate.as_ref().expect("gated").cancel();
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) async fn started(&self) {
        until("the work has started", || self.runs() > 0).await;
    }

    /// The work, ending with `outcome`.
    pub(crate) fn work(
        &self,
        outcome: Outcome,
    ) -> impl FnOnce(Execution) -> std::pin::Pin<Box<dyn Future<Output = Outcome> + Send>> + Send + 'static
    {
        let effect = self.clone();
        move |_| {
            Box::pin(async move {
                effect.runs.fetch_add(1, Ordering::SeqCst);
                if let Some(gate) = effect.gate {
                    gate.cancelled().await;
                }
                outcome
            })
        }
    }
}

/// Work that must not be executed. Its panic becomes [`Outcome::Unknown`], which the answer shows.
pub(crate) fn never(_: Execution) -> std::future::Ready<Outcome> {
    panic!("this must not be executed")
}
