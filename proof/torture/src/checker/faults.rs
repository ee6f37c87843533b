//! The faults of a run, and what each of them can explain.

mod spans;

use std::collections::HashMap;

use crate::nemesis::Kind;
use spans::{gap_max, merged, overlap};

/// Faults are looked up by the seconds that they touch, so that a question takes the same time however
/// long the history is.
const SECOND: u64 = 1_000_000;

/// A fault that happened.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) kind: String,
    /// The gateways that it hit; none named means all.
    hits: Vec<usize>,
    /// It hit only copies of records, by which nothing is decided.
    near: bool,
    began: u64,
    /// Until the end of the history, if it was never healed.
    ended: u64,
}

/// All faults so far.
#[derive(Debug)]
pub(super) struct Faults {
    /// In microseconds.
    lease: u64,
    all: Vec<Happened>,
    /// Open faults, by their ids.
    open: HashMap<u64, usize>,
    /// Those that are over, by each second that they touch.
    by_second: HashMap<u64, Vec<usize>>,
    last_second: u64,
    clock_went_back: bool,
    /// When a disk was last full.
    disk_was_full: Option<u64>,
}

// === impl Faults ===

impl Faults {
    pub(super) fn new(lease: u64) -> Self {
        Self {
            lease,
            all: Vec::new(),
            open: HashMap::new(),
            by_second: HashMap::new(),
            last_second: 0,
            clock_went_back: false,
            disk_was_full: None,
        }
    }

    pub(super) fn begin(&mut self, id: u64, kind: String, hits: Vec<usize>, near: bool, t: u64) {
        self.clock_went_back |= kind == "clock-back";
        self.open.insert(id, self.all.len());
        self.all.push(Happened { kind, hits, near, began: t, ended: u64::MAX });
    }

    pub(super) fn end(&mut self, id: u64, t: u64) {
        let Some(number) = self.open.remove(&id) else { return };
        let fault = &mut self.all[number];
        fault.ended = t;
        if fault.kind == Kind::DiskFull.as_str() {
            self.disk_was_full = self.disk_was_full.max(Some(t));
        }
        for second in fault.began / SECOND..=t / SECOND {
            self.by_second.entry(second).or_default().push(number);
            self.last_second = self.last_second.max(second);
        }
    }

    /// It has not happened after all; what it would have been.
    pub(super) fn withdraw(&mut self, id: u64) -> Option<&str> {
        self.open.remove(&id).map(|number| &*self.all[number].kind)
    }

    /// What may have cost a gateway its leases in this time.
    pub(super) fn lease_loss(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let found = self.touching(Some(gateway), from, until).find(|fault| fault.costs_leases());
        found.or_else(|| self.long_stall(from, until))
    }

    /// What may have held a gateway up for longer than a lease, without ending it.
    pub(super) fn held_up(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let holds_up = |fault: &&Happened| fault.costs_leases() && fault.kind != "gateway-kill";
        let found = self.touching(Some(gateway), from, until).find(holds_up);
        found.or_else(|| self.long_stall(from, until))
    }

    /// What kept a gateway from its store.
    pub(super) fn store_loss(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let found =
            self.touching(Some(gateway), from, until).find(|fault| fault.parts_from_store());
        found.or_else(|| self.long_stall(from, until))
    }

    /// The same, or faults that made the gateway start again or rediscover its store.
    pub(super) fn store_away(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let begins = |fault: &&Happened| fault.kind.starts_with("gateway-");
        let found = self.touching(Some(gateway), from, until).find(begins);
        found.or_else(|| self.store_loss(gateway, from, until))
    }

    /// What left a store without room for anything new.
    pub(super) fn store_full(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        self.touching(Some(gateway), from, until).find(|fault| fault.fills_store())
    }

    /// True if a store was full all the time between two moments.
    pub(super) fn was_full(&self, from: u64, until: u64) -> bool {
        let full = self.touching(None, from, until).filter(|fault| fault.fills_store());
        full.map(Happened::span).any(|(began, ended)| began <= from && until <= ended)
    }

    /// Times of more than a lease in which a gateway was kept from its store, and which began before `until` and
    /// went on after `from`: from when to when.
    pub(super) fn outages(&self, gateway: usize, from: u64, until: u64) -> Vec<(u64, u64)> {
        let breaks = |fault: &&Happened| fault.breaks_store();
        // One that began before may go on as another.
        let until_later = until.saturating_add(self.lease);
        let found = self.touching(Some(gateway), from, until_later).filter(breaks);
        let mut outages = merged(found.map(Happened::span).collect());
        outages.retain(|(began, ended)| {
            *began <= until && ended.saturating_sub((*began).max(from)) > self.lease
        });
        outages
    }

    /// What happened to the gateway itself, or to the machine.
    pub(super) fn of_gateway(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let is_own =
            |fault: &&Happened| fault.kind.starts_with("gateway-") || fault.kind == "stall";
        self.touching(Some(gateway), from, until).find(is_own)
    }

    /// What kept a gateway from its store that has just begun. That the one before it was frozen did not.
    pub(super) fn store_loss_at_start(
        &self,
        gateway: usize,
        from: u64,
        until: u64,
    ) -> Option<&Happened> {
        let breaks = |fault: &&Happened| fault.breaks_store() || fault.fills_store();
        let found = self.touching(Some(gateway), from, until).find(breaks);
        found.or_else(|| self.long_stall(from, until))
    }

    /// What a client of this gateway may have noticed.
    pub(super) fn any(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        self.touching(Some(gateway), from, until).next()
    }

    /// For how long, in this time, there was a fault that a client of this gateway may have noticed.
    pub(super) fn disturbed(&self, gateway: usize, from: u64, until: u64) -> u64 {
        let spans = self.touching(Some(gateway), from, until).map(Happened::span);
        overlap(&merged(spans.collect()), from, until)
    }

    /// What may have cost any gateway its leases.
    pub(super) fn any_lease_loss(&self, from: u64, until: u64) -> Option<&Happened> {
        let found = self.touching(None, from, until).find(|fault| fault.costs_leases());
        found.or_else(|| self.long_stall(from, until))
    }

    /// The longest time between two faults that may have cost any gateway its leases.
    pub(super) fn longest_quiet(&self, from: u64, until: u64) -> u64 {
        let costs = |fault: &&Happened| fault.costs_leases() || fault.kind == "stall";
        let spans = self.touching(None, from, until).filter(costs).map(Happened::span);
        gap_max(&merged(spans.collect()), from, until)
    }

    /// When in this time any gateway first ended, and with it all that it knew.
    pub(super) fn first_end(&self, from: u64, until: u64) -> Option<u64> {
        let ends = |fault: &&Happened| fault.ends_gateways();
        // Second by second, so that not all of a long time is looked at to find the first.
        let first = self.touching(None, from, until).find(ends)?.began.max(from);
        let until_then = self.touching(None, from, first).filter(ends);
        until_then.map(|fault| fault.began.max(from)).min()
    }

    /// True if this gateway ended in this time.
    pub(super) fn has_ended(&self, gateway: usize, from: u64, until: u64) -> bool {
        self.touching(Some(gateway), from, until).any(Happened::ends_gateways)
    }

    /// When this one last began in this time, after it had ended: all that it knows is younger.
    pub(super) fn last_start(&self, gateway: usize, from: u64, until: u64) -> Option<u64> {
        let ends = self.touching(Some(gateway), from, until).filter(|fault| fault.ends_gateways());
        ends.map(|fault| fault.ended).filter(|ended| *ended <= until).max()
    }

    /// True if this gateway was stopped in this time.
    pub(super) fn is_termed(&self, gateway: usize, from: u64, until: u64) -> bool {
        self.touching(Some(gateway), from, until).any(|fault| fault.kind == "gateway-term")
    }

    /// An unplanned promotion of a replica that may lack records.
    pub(super) fn promotion(&self, from: u64, until: u64) -> Option<&Happened> {
        self.touching(None, from, until).find(|fault| fault.kind == "promoted")
    }

    /// For how long the machine stood still in this time.
    pub(super) fn stalled(&self, from: u64, until: u64) -> u64 {
        overlap(&self.stalls(from, until), from, until)
    }

    /// True if the store's clock went back. Then leases last longer.
    pub(super) fn clock_went_back(&self) -> bool {
        self.clock_went_back
    }

    /// Until when a disk was full, if it was.
    pub(super) fn disk_was_full(&self) -> Option<u64> {
        self.disk_was_full
    }

    /// Stalls that can have cost a lease: it is renewed at a third of its time, so what is left for the
    /// renewal and its repetitions must have been lost within a lease.
    fn long_stall(&self, from: u64, until: u64) -> Option<&Happened> {
        let stalls = self.stalls(from, until);
        let costs = |(began, _): &(u64, u64)| {
            overlap(&stalls, *began, began + self.lease) >= self.lease / 10 * 6
        };
        stalls.iter().any(costs).then_some(())?;
        self.touching(None, from, until).find(|fault| fault.kind == "stall")
    }

    fn stalls(&self, from: u64, until: u64) -> Vec<(u64, u64)> {
        let stalls = self.touching(None, from, until).filter(|fault| fault.kind == "stall");
        merged(stalls.map(Happened::span).collect())
    }

    /// Faults of a gateway, or of any, that touch this time; some of them several times.
    fn touching(
        &self,
        gateway: Option<usize>,
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = &Happened> {
        let hits = move |fault: &Happened| {
            fault.hits.is_empty() || gateway.is_none_or(|gateway| fault.hits.contains(&gateway))
        };
        let seconds = from / SECOND..=(until / SECOND).min(self.last_second);
        let over = seconds.filter_map(|second| self.by_second.get(&second)).flatten();
        over.chain(self.open.values())
            .map(|number| &self.all[*number])
            .filter(move |fault| fault.began <= until && from <= fault.ended && hits(fault))
    }
}

// === impl Happened ===

impl Happened {
    fn span(&self) -> (u64, u64) {
        (self.began, self.ended)
    }

    fn ends_gateways(&self) -> bool {
        Kind::ALL.iter().any(|kind| kind.ends_gateways() && kind.as_str() == self.kind)
    }

    /// Whether stalls do depends on how long they are.
    fn costs_leases(&self) -> bool {
        let gateway = matches!(&*self.kind, "gateway-kill" | "gateway-pause");
        gateway || self.kind.starts_with("clock-") || self.parts_from_store()
    }

    fn parts_from_store(&self) -> bool {
        // A frozen gateway finds its verbs overdue when it goes on.
        self.breaks_store() || self.kind == "gateway-pause"
    }

    /// The store itself, or the way there.
    fn breaks_store(&self) -> bool {
        let kinds = ["back-", "store-", "disk-"];
        kinds.iter().any(|kind| self.kind.starts_with(kind)) && !self.near && !self.fills_store()
    }

    /// Nothing new is taken in, and nothing else is wrong: what is there may be written and read.
    fn fills_store(&self) -> bool {
        self.kind == Kind::StoreFull.as_str()
    }
}
