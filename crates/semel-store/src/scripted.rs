//! A store with scripted faults, and a capture of log events, for the tests of code that uses a store.
//!
//! ```
//! # use semel_core::{Attempt, Fingerprint, Owner, Policy, RecordId};
//! use semel_store::scripted::{Fault, ScriptedStore, Verb};
//! use semel_store::{MemoryStore, Store as _};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let id = RecordId::from_bytes([7; 32]);
//! let attempt = Attempt::new(id, Fingerprint::new([("body", "100")]), Owner::from_u128(1));
//! let policy = Policy::default();
//!
//! let store = ScriptedStore::over(MemoryStore::new());
//! store.fail_next(Verb::Claim, [Fault::Unavailable]);
//! assert!(store.claim(&attempt, &policy).await.is_err());
//! assert!(store.claim(&attempt, &policy).await.is_ok());
//! assert_eq!((store.calls(Verb::Claim), store.last_claimed()), (2, Some(id)));
//! # }
//! ```

mod logs;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fingerprint, Lease, Owner, Policy, Record, RecordId, Release, Settlement,
};
use tokio::sync::watch;

use crate::{
    Health, MemoryStore, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch,
    WatchState,
};

pub use logs::Logs;

/// A memory store that yields, fails or hangs on command, and counts calls.
#[derive(Debug)]
pub struct ScriptedStore {
    memory: MemoryStore,
    script: Mutex<Script>,
    recovered: watch::Sender<()>,
    state: watch::Sender<WatchState>,
    partial: AtomicBool,
}

/// The verbs that can be scripted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// [`Store::claim`].
    Claim,
    /// [`Store::renew`].
    Renew,
    /// [`Store::settle`].
    Settle,
    /// [`Store::release`].
    Release,
    /// [`Store::inspect`].
    Inspect,
}

/// A fault of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Fails, with the error that nothing took effect.
    Unavailable,
    /// Is declined by the store, without an effect.
    Declined,
    /// Never reaches the store, for a cause in this process.
    NotAsked,
    /// Times out, without an effect.
    TimedOut,
    /// Times out after it took effect.
    TimedOutApplied,
    /// Fails because stored data is damaged.
    Corrupt,
    /// Hangs until [`mend`](ScriptedStore::mend), and then takes effect.
    Hang,
    /// Panics.
    Panic,
}

#[derive(Debug, Default)]
struct Script {
    next: HashMap<Verb, VecDeque<Fault>>,
    always: HashMap<Verb, Fault>,
    calls: HashMap<Verb, usize>,
    yields: HashMap<Verb, usize>,
    claimed: Option<(RecordId, Fingerprint, Owner)>,
}

// === impl Verb ===

impl Verb {
    /// Every verb.
    pub const ALL: [Self; 5] =
        [Self::Claim, Self::Renew, Self::Settle, Self::Release, Self::Inspect];
}

// === impl ScriptedStore ===

impl ScriptedStore {
    /// A store without faults, with its records in `memory`, which may have other users.
    pub fn over(memory: MemoryStore) -> Self {
        let (recovered, state) =
            (watch::Sender::new(()), watch::Sender::new(WatchState::default()));
        let partial = AtomicBool::new(false);
        Self { memory, script: Mutex::default(), recovered, state, partial }
    }

    /// The records, without the script.
    pub fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// Makes these verbs yield `times` times before they take effect, and again before they answer.
    pub fn yield_in(&self, verbs: impl IntoIterator<Item = Verb>, times: usize) {
        self.script().yields.extend(verbs.into_iter().map(|verb| (verb, times)));
    }

    /// Gives the next calls of the verb these faults, one each.
    pub fn fail_next(&self, verb: Verb, faults: impl IntoIterator<Item = Fault>) {
        self.script().next.entry(verb).or_default().extend(faults);
    }

    /// Gives all calls of these verbs the fault, until [`mend`](Self::mend).
    pub fn fail(&self, verbs: impl IntoIterator<Item = Verb>, fault: Fault) {
        self.script().always.extend(verbs.into_iter().map(|verb| (verb, fault)));
    }

    /// Gives all verbs the fault: the store is lost.
    pub fn fail_all(&self, fault: Fault) {
        self.fail(Verb::ALL, fault);
    }

    /// Ends the faults of [`fail`](Self::fail), and resumes calls that hang.
    pub fn mend(&self) {
        self.script().always.clear();
        self.recovered.send_replace(());
    }

    /// Makes watches listening or not. Only [`notify`](Self::notify) notifies them, never a change of the memory.
    pub fn listen(&self, listening: bool) {
        self.state.send_modify(|state| state.listening = listening);
    }

    /// Makes watches listening and, from now on, [partial](Watch::partial).
    pub fn listen_partially(&self) {
        self.partial.store(true, Ordering::Relaxed);
        self.listen(true);
    }

    /// Notifies all watches of a change.
    pub fn notify(&self) {
        self.state.send_modify(|state| state.changes += 1);
    }

    /// The number of calls of the verb, with or without a fault.
    pub fn calls(&self, verb: Verb) -> usize {
        self.script().calls.get(&verb).copied().unwrap_or(0)
    }

    /// The record of the latest call of `claim`.
    pub fn last_claimed(&self) -> Option<RecordId> {
        self.script().claimed.map(|(id, ..)| id)
    }

    /// The attempt of the latest call of `claim`: for a claim that arrives late.
    pub fn last_attempt(&self) -> Option<Attempt> {
        self.script().claimed.map(|(id, fingerprint, owner)| Attempt::new(id, fingerprint, owner))
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        // Tests panic on purpose, but never halfway through a change of the script.
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, verb: Verb) -> Option<Fault> {
        let mut script = self.script();
        *script.calls.entry(verb).or_default() += 1;
        let next = script.next.get_mut(&verb).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&verb).copied())
    }

    async fn pause(&self, verb: Verb) {
        let times = self.script().yields.get(&verb).copied().unwrap_or(0);
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn run<'a, T: Send + 'a>(&'a self, verb: Verb, call: StoreFuture<'a, T>) -> StoreFuture<'a, T> {
        // Before the fault is taken, so that no later `mend` is missed.
        let mut recovered = self.recovered.subscribe();
        let fault = self.begin(verb);
        Box::pin(async move {
            self.pause(verb).await;
            let timed_out = || StoreError::deadline("scripted", Duration::ZERO);
            match fault {
                None => {}
                Some(Fault::Unavailable) => return Err(StoreError::unavailable("scripted")),
                Some(Fault::Declined) => {
                    return Err(StoreError::Declined { what: "scripted".to_owned(), source: None });
                }
                Some(Fault::NotAsked) => return Err(StoreError::not_asked("scripted")),
                Some(Fault::TimedOut) => return Err(timed_out()),
                Some(Fault::TimedOutApplied) => return call.await.and_then(|_| Err(timed_out())),
                Some(Fault::Corrupt) => {
                    return Err(StoreError::Corrupt { what: "scripted".to_owned() });
                }
                Some(Fault::Hang) => recovered.changed().await.expect("the store is borrowed"),
                Some(Fault::Panic) => panic!("scripted"),
            }
            let answer = call.await;
            self.pause(verb).await;
            answer
        })
    }
}

impl Store for ScriptedStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        self.script().claimed = Some((attempt.id(), attempt.fingerprint(), attempt.owner()));
        self.run(Verb::Claim, self.memory.claim(attempt, policy))
    }

    fn watch(&self, _id: RecordId) -> Option<Watch> {
        let watch = Watch::new(self.state.subscribe(), ());
        let partial = self.partial.load(Ordering::Relaxed);
        Some(if partial { watch.partial() } else { watch })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.run(Verb::Renew, self.memory.renew(lease, duration))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        self.run(Verb::Settle, self.memory.settle(lease, settlement))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.run(Verb::Release, self.memory.release(lease, how))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.run(Verb::Inspect, self.memory.inspect(id))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.memory.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.memory.health()
    }
}

#[cfg(test)]
mod tests {
    use semel_core::State;

    use super::*;
    use crate::faulty::attempt;

    fn scripted(faults: impl IntoIterator<Item = Fault>) -> ScriptedStore {
        let store = ScriptedStore::over(MemoryStore::new());
        store.fail_next(Verb::Claim, faults);
        store
    }

    async fn claim(store: &ScriptedStore) -> Result<Claim, StoreError> {
        store.claim(&attempt("k", 1), &Policy::default()).await
    }

    #[tokio::test]
    async fn only_a_call_that_was_applied_leaves_a_record() {
        for (fault, records) in [
            (Fault::Unavailable, 0),
            (Fault::TimedOut, 0),
            (Fault::TimedOutApplied, 1),
            (Fault::Corrupt, 0),
        ] {
            let store = scripted([fault]);
            assert!(claim(&store).await.is_err(), "{fault:?}");
            assert_eq!(store.memory().len(), records, "{fault:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_hangs_until_mend_and_then_takes_effect() {
        let store = scripted([Fault::Hang]);
        let mut hanging = Box::pin(claim(&store));
        let hour = Duration::from_hours(1);
        assert!(tokio::time::timeout(hour, hanging.as_mut()).await.is_err());
        assert!(store.memory().is_empty());
        store.mend();
        assert!(matches!(hanging.await, Ok(Claim::Execute(_))));
        let id = store.last_claimed().unwrap();
        let record = store.memory().inspect(id).await.unwrap().unwrap();
        assert!(matches!(record.state, State::Leased { .. }));
    }

    #[tokio::test]
    async fn a_verb_yields_before_its_work_and_before_its_answer() {
        let store = scripted([]);
        store.yield_in([Verb::Claim], 2);
        let mut polls = 0;
        let mut yielding = Box::pin(claim(&store));
        let answer = std::future::poll_fn(|context| {
            polls += 1;
            yielding.as_mut().poll(context)
        });
        assert!(answer.await.is_ok());
        assert_eq!(polls, 5);
    }
}
