use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Release, Settlement};
use semel_store::{
    Health, MemoryStore, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept,
};
use tokio::sync::watch;

/// A memory store that follows a script: it yields, fails or hangs on command, and counts calls.
pub(crate) struct ScriptedStore {
    memory: MemoryStore,
    script: Mutex<Script>,
    mended: watch::Sender<()>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Verb {
    Claim,
    Renew,
    Settle,
    Release,
    Inspect,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Fails without an effect, and says so.
    Unavailable,
    /// Does not say that it had no effect.
    TimedOut,
    /// Does not say that it had its effect.
    TimedOutApplied,
    /// Cannot read what it keeps.
    Corrupt,
    /// Does nothing until the fault is mended, and then goes on.
    Hang,
    /// Is broken.
    Panic,
}

#[derive(Default)]
struct Script {
    next: HashMap<Verb, VecDeque<Fault>>,
    always: HashMap<Verb, Fault>,
    calls: HashMap<Verb, usize>,
    /// How often a verb yields before it does anything, and again before it answers.
    yields: HashMap<Verb, usize>,
}

impl Verb {
    pub(crate) const ALL: [Self; 5] =
        [Self::Claim, Self::Renew, Self::Settle, Self::Release, Self::Inspect];
}

impl ScriptedStore {
    pub(crate) fn over(memory: MemoryStore) -> Self {
        Self { memory, script: Mutex::default(), mended: watch::Sender::new(()) }
    }

    pub(crate) fn memory(&self) -> &MemoryStore {
        &self.memory
    }

    /// These verbs yield so many times before they do anything, and again before they answer.
    pub(crate) fn yield_in(&self, verbs: impl IntoIterator<Item = Verb>, times: usize) {
        self.script().yields.extend(verbs.into_iter().map(|verb| (verb, times)));
    }

    /// The next calls of the verb meet these faults, one each.
    pub(crate) fn fail_next(&self, verb: Verb, faults: impl IntoIterator<Item = Fault>) {
        self.script().next.entry(verb).or_default().extend(faults);
    }

    /// All calls of these verbs meet the fault, until [`mend`](Self::mend).
    pub(crate) fn fail(&self, verbs: impl IntoIterator<Item = Verb>, fault: Fault) {
        self.script().always.extend(verbs.into_iter().map(|verb| (verb, fault)));
    }

    /// All verbs meet the fault: the store is lost.
    pub(crate) fn fail_all(&self, fault: Fault) {
        self.fail(Verb::ALL, fault);
    }

    pub(crate) fn mend(&self) {
        self.script().always.clear();
        self.mended.send_replace(());
    }

    pub(crate) fn calls(&self, verb: Verb) -> usize {
        self.script().calls.get(&verb).copied().unwrap_or(0)
    }

    fn script(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap()
    }

    fn begin(&self, verb: Verb) -> Option<Fault> {
        let mut script = self.script();
        *script.calls.entry(verb).or_default() += 1;
        let next = script.next.get_mut(&verb).and_then(VecDeque::pop_front);
        next.or_else(|| script.always.get(&verb).copied())
    }

    async fn hang(&self, verb: Verb) {
        let mut mended = self.mended.subscribe();
        while self.script().always.get(&verb) == Some(&Fault::Hang) {
            mended.changed().await.unwrap();
        }
    }

    async fn pause(&self, verb: Verb) {
        let times = self.script().yields.get(&verb).copied().unwrap_or(0);
        for _ in 0..times {
            tokio::task::yield_now().await;
        }
    }

    fn play<'a, T: Send + 'a>(
        &'a self,
        verb: Verb,
        call: StoreFuture<'a, T>,
    ) -> StoreFuture<'a, T> {
        Box::pin(async move {
            let fault = self.begin(verb);
            self.pause(verb).await;
            let timed_out = || StoreError::deadline("scripted", Duration::ZERO);
            match fault {
                None => {}
                Some(Fault::Unavailable) => return Err(StoreError::unavailable("scripted")),
                Some(Fault::TimedOut) => return Err(timed_out()),
                Some(Fault::TimedOutApplied) => return call.await.and_then(|_| Err(timed_out())),
                Some(Fault::Corrupt) => {
                    return Err(StoreError::Corrupt { what: "scripted".to_owned() });
                }
                Some(Fault::Hang) => self.hang(verb).await,
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
        self.play(Verb::Claim, self.memory.claim(attempt, policy))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        self.play(Verb::Renew, self.memory.renew(lease, duration))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        self.play(Verb::Settle, self.memory.settle(lease, settlement))
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        self.play(Verb::Release, self.memory.release(lease, how))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        self.play(Verb::Inspect, self.memory.inspect(id))
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        self.memory.sweep(limit)
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        self.memory.health()
    }
}
