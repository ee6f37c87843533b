//! The faults of a run, and what each of them can explain.

use std::collections::HashMap;

/// Faults are looked up by the seconds that they touch, so that a question takes the same time however
/// long the history is.
const SECOND: u64 = 1_000_000;

/// A fault that happened.
#[derive(Clone, Debug)]
pub(super) struct Happened {
    pub(super) kind: String,
    /// The gateways that it hit; none named means all.
    hits: Vec<usize>,
    began: u64,
    /// Until the end of the history, if nobody mended it.
    ended: u64,
}

/// All faults so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    all: Vec<Happened>,
    /// Those that nobody has mended yet, by their ids.
    open: HashMap<u64, usize>,
    /// Those that are over, by each second that they touch.
    by_second: HashMap<u64, Vec<usize>>,
    last_second: u64,
    clock_went_back: bool,
}

// === impl Faults ===

impl Faults {
    pub(super) fn begin(&mut self, id: u64, kind: String, hits: Vec<usize>, t: u64) {
        self.clock_went_back |= kind == "clock-back";
        self.open.insert(id, self.all.len());
        self.all.push(Happened { kind, hits, began: t, ended: u64::MAX });
    }

    pub(super) fn end(&mut self, id: u64, t: u64) {
        let Some(number) = self.open.remove(&id) else { return };
        let fault = &mut self.all[number];
        fault.ended = t;
        for second in fault.began / SECOND..=t / SECOND {
            self.by_second.entry(second).or_default().push(number);
            self.last_second = self.last_second.max(second);
        }
    }

    /// What may have cost a gateway its leases in this time.
    pub(super) fn lease_loss(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        self.find(Some(gateway), from, until, Happened::costs_leases)
    }

    /// What may have held a gateway up for longer than a lease, without ending it.
    pub(super) fn held_up(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        let holds_up = |fault: &Happened| fault.costs_leases() && fault.kind != "gateway-kill";
        self.find(Some(gateway), from, until, holds_up)
    }

    /// What kept a gateway from its store.
    pub(super) fn store_loss(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        self.find(Some(gateway), from, until, Happened::parts_from_store)
    }

    /// What may have made a client of this gateway wait.
    pub(super) fn any(&self, gateway: usize, from: u64, until: u64) -> Option<&Happened> {
        self.find(Some(gateway), from, until, |_| true)
    }

    /// What may have cost any gateway its leases.
    pub(super) fn any_lease_loss(&self, from: u64, until: u64) -> Option<&Happened> {
        self.find(None, from, until, Happened::costs_leases)
    }

    /// What ended any gateway, and with it all that it knew.
    pub(super) fn any_end(&self, from: u64, until: u64) -> Option<&Happened> {
        let ends = |fault: &Happened| matches!(&*fault.kind, "gateway-kill" | "gateway-term");
        self.find(None, from, until, ends)
    }

    /// What may have promoted a replica that lacks records.
    pub(super) fn failover(&self, from: u64, until: u64) -> Option<&Happened> {
        let promotes = |fault: &Happened| {
            matches!(&*fault.kind, "store-failover" | "store-handover" | "store-pause")
        };
        self.find(None, from, until, promotes)
    }

    /// Did the store's clock go back? Then leases last longer.
    pub(super) fn clock_went_back(&self) -> bool {
        self.clock_went_back
    }

    fn find(
        &self,
        gateway: Option<usize>,
        from: u64,
        until: u64,
        is_it: impl Fn(&Happened) -> bool,
    ) -> Option<&Happened> {
        let hits = |fault: &Happened| {
            fault.hits.is_empty() || gateway.is_none_or(|gateway| fault.hits.contains(&gateway))
        };
        let seconds = from / SECOND..=(until / SECOND).min(self.last_second);
        let over = seconds.filter_map(|second| self.by_second.get(&second)).flatten();
        over.chain(self.open.values()).map(|number| &self.all[*number]).find(|fault| {
            fault.began <= until && from <= fault.ended && hits(fault) && is_it(fault)
        })
    }
}

// === impl Happened ===

impl Happened {
    fn costs_leases(&self) -> bool {
        let gateway = matches!(&*self.kind, "gateway-kill" | "gateway-pause");
        gateway || self.kind.starts_with("clock-") || self.parts_from_store()
    }

    fn parts_from_store(&self) -> bool {
        let kinds = ["back-", "store-", "disk-", "stall"];
        // A frozen gateway finds its verbs overdue when it goes on.
        self.kind == "gateway-pause" || kinds.iter().any(|kind| self.kind.starts_with(kind))
    }
}
