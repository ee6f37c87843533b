//! The simulated store, as a server that nodes reach over the network.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use semel_core::{Claim, Record, RecordId, Release, Settlement};
use semel_store::{Released, Renewed, Settled, StoreError, WatchState};
use tokio::sync::{Notify, watch};

use crate::disk::{ClaimSent, Disk, LeaseSent};
use crate::trace::Source;
use crate::world::World;

/// One server for all nodes. Each verb is one step, and is reported to the oracle as it is answered.
pub(crate) struct Server {
    world: World,
    disk: Disk,
    state: Mutex<State>,
    /// Notified when the server is back.
    back: Notify,
    /// Per node: the watches to notify of changes.
    watches: Mutex<Vec<BTreeMap<RecordId, watch::Sender<WatchState>>>>,
}

/// Whether the server is up.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// The number of current reasons for it to be down.
    outages: usize,
    hangs: bool,
    /// Rises with every start: connections do not live on.
    start: u64,
}

// === impl Server ===

impl Server {
    pub(crate) fn new(world: World) -> Self {
        let watchers = if world.plan().is_watched { world.plan().nodes } else { 0 };
        Self {
            disk: Disk::new(world.clone()),
            world,
            state: Mutex::default(),
            back: Notify::new(),
            watches: Mutex::new(vec![BTreeMap::new(); watchers]),
        }
    }

    pub(crate) fn go_down(&self, hangs: bool) {
        let mut state = self.state();
        state.outages += 1;
        state.hangs = hangs;
    }

    pub(crate) fn come_back(&self) {
        self.state().outages -= 1;
        self.back.notify_waiters();
    }

    /// Waits until it is there.
    pub(crate) async fn back(&self) {
        loop {
            let back = self.back.notified();
            if !self.is_down() {
                return;
            }
            back.await;
        }
    }

    /// Cuts all connections. What is written stays.
    pub(crate) fn restart(&self) {
        self.state().start += 1;
        self.disk.restart();
    }

    pub(crate) fn is_down(&self) -> bool {
        self.state().outages > 0
    }

    /// Whether it lets its callers hang while it is down.
    pub(crate) fn hangs(&self) -> bool {
        self.state().hangs
    }

    /// Runs a verb as the second copy, whose first one may have been answered.
    pub(crate) fn once_more<T>(&self, is_answered: bool, work: impl FnOnce() -> T) -> T {
        let report = |is_doubled| {
            self.world.report(|oracle, _| {
                oracle.doubled(is_doubled);
                Ok(())
            })
        };
        report(is_answered);
        let done = work();
        report(false);
        done
    }

    /// Which start of the server this is.
    pub(crate) fn start(&self) -> u64 {
        self.state().start
    }

    pub(crate) fn claim(&self, sent: &ClaimSent) -> Result<Claim, StoreError> {
        let claim = self.disk.claim(sent)?;
        self.note("claim", sent.id, sent.owner.as_u128(), format_args!("{}", claim_word(&claim)));
        self.world.judge(|oracle, moment| oracle.claimed(moment, sent, &claim));
        Ok(claim)
    }

    pub(crate) fn renew(&self, sent: LeaseSent, by: Duration) -> Result<Renewed, StoreError> {
        let renewed = self.disk.renew(sent, by)?;
        let is_refused = matches!(renewed, Renewed::Refused(_));
        self.note_fenced("renew", sent, is_refused);
        self.world.judge(|oracle, moment| oracle.renewed(moment, sent, by, &renewed));
        Ok(renewed)
    }

    pub(crate) fn settle(
        &self,
        sent: LeaseSent,
        settlement: &Settlement,
    ) -> Result<Settled, StoreError> {
        let settled = self.disk.settle(sent, settlement)?;
        self.note_fenced("settle", sent, matches!(settled, Settled::Refused(_)));
        self.world.judge(|oracle, moment| oracle.settled(moment, sent, settlement, &settled));
        self.notify_watchers(sent.id);
        Ok(settled)
    }

    pub(crate) fn release(&self, sent: LeaseSent, how: Release) -> Result<Released, StoreError> {
        let released = self.disk.release(sent, how)?;
        let verb = if how == Release::Hold { "hold" } else { "release" };
        self.note_fenced(verb, sent, matches!(released, Released::Refused(_)));
        self.world.judge(|oracle, moment| oracle.released(moment, sent, how, &released));
        self.notify_watchers(sent.id);
        Ok(released)
    }

    pub(crate) fn inspect(&self, id: RecordId) -> Result<Option<Record>, StoreError> {
        let record = self.disk.inspect(id)?;
        self.world.judge(|oracle, moment| oracle.inspected(moment, id, record.as_ref()));
        let key = self.world.query(|oracle, _| oracle.key_word(id));
        let is_there = if record.is_some() { "there" } else { "gone" };
        self.world.note(Source::Store, format_args!("inspect {key}: {is_there}"));
        Ok(record)
    }

    pub(crate) fn sweep(&self) -> Result<(), StoreError> {
        let swept = self.disk.sweep()?;
        self.world.note(Source::Store, format_args!("sweep: {} deleted", swept.deleted));
        self.world.judge(|oracle, moment| oracle.swept(moment, swept.deleted));
        Ok(())
    }

    /// A node's watch of a record; `None` if this store has no watches.
    pub(crate) fn watch(&self, node: usize, id: RecordId) -> Option<watch::Receiver<WatchState>> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        let state = WatchState { listening: true, changes: 0 };
        let sender = watches.get_mut(node)?.entry(id).or_insert_with(|| watch::Sender::new(state));
        Some(sender.subscribe())
    }

    /// Notifications are hints: some are lost, all are late.
    fn notify_watchers(&self, id: RecordId) {
        let watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        for sender in watches.iter().filter_map(|watches| watches.get(&id)) {
            let is_heard = self.world.is_calm() || self.world.draw(|random| random.chance(900));
            if sender.receiver_count() > 0 && is_heard {
                let (sender, late) = (sender.clone(), self.world.draw(|random| random.below(20)));
                tokio::spawn(async move {
                    tokio::time::sleep(Duration::from_millis(late)).await;
                    sender.send_modify(|state| state.changes += 1);
                });
            }
        }
    }

    fn note_fenced(&self, verb: &str, sent: LeaseSent, is_refused: bool) {
        let word = if is_refused { "refused" } else { "done" };
        let fence = sent.fence;
        self.note(verb, sent.id, sent.owner.as_u128(), format_args!("{word} (fence {fence})"));
    }

    fn note(&self, verb: &str, id: RecordId, owner: u128, what: std::fmt::Arguments<'_>) {
        let (key, attempt) =
            self.world.query(|oracle, _| (oracle.key_word(id), oracle.attempt_word(owner)));
        self.world.note(Source::Store, format_args!("{verb} {key} {attempt}: {what}"));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn claim_word(claim: &Claim) -> String {
    match claim {
        Claim::Execute(lease) => format!("execute (fence {})", lease.fence()),
        Claim::Replay { .. } => "replay".to_owned(),
        Claim::InFlight { .. } => "in flight".to_owned(),
        Claim::Mismatch => "mismatch".to_owned(),
        Claim::Unknown => "unknown".to_owned(),
    }
}
