//! The plan of a seed: the clients' operations and the faults, with their times.

use std::time::Duration;

use semel_core::{
    Fingerprint, InFlight, Key, OnAbandoned, OnStoreDown, OnUnknown, Policy, RecordId, Scope,
};
use semel_engine::Limits;

use crate::random::Random;

/// How late a verb may arrive. The engine counts on less than 30 seconds when it recovers a lease whose
/// grant was not acknowledged.
pub(crate) const LATE_MAX: Duration = Duration::from_secs(25);

/// All that is decided before a run begins.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) nodes: usize,
    pub(crate) limits: Limits,
    /// Whether the nodes have a cache of settled records.
    pub(crate) is_cached: bool,
    /// Whether the store notifies watches of changes.
    pub(crate) is_watched: bool,
    pub(crate) keys: Vec<PlannedKey>,
    pub(crate) operations: Vec<Operation>,
    pub(crate) troubles: Vec<Trouble>,
    pub(crate) odds: Odds,
    /// When all faults end.
    pub(crate) horizon: Duration,
    pub(crate) sweep_every: Duration,
}

/// A key in its scope, with the policy of its route.
#[derive(Debug)]
pub(crate) struct PlannedKey {
    pub(crate) id: RecordId,
    pub(crate) policy: Policy,
    /// What the id would be if scopes did not count.
    pub(crate) id_without_scope: RecordId,
}

/// An operation of a client, and its retries.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) key: usize,
    /// Which request it is. Clients that use a key for another request have another.
    pub(crate) request: u8,
    pub(crate) at: Duration,
    pub(crate) tries: u32,
    /// When the client hangs up.
    pub(crate) client_timeout: Duration,
    /// Before it tries again.
    pub(crate) pause: Duration,
}

/// Something larger that goes wrong.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trouble {
    pub(crate) at: Duration,
    pub(crate) lasts: Duration,
    pub(crate) kind: TroubleKind,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum TroubleKind {
    Partition { node: usize, requests: bool, answers: bool },
    Outage { hangs: bool },
    Restart,
    Crash { node: usize },
    Pause { node: usize },
    Shutdown { node: usize },
    Clock { by_ms: i64 },
}

/// How often a verb meets each fault, out of a thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Odds {
    pub(crate) request_lost: u64,
    pub(crate) answer_lost: u64,
    pub(crate) refused: u64,
    pub(crate) late: u64,
    pub(crate) duplicated: u64,
    pub(crate) damaged: u64,
}

// === impl Plan ===

impl Plan {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let lease = Duration::from_millis(random.pick([300, 1_000, 1_000, 3_000, 10_000]));
        let nodes = 1 + random.index(4);
        let is_calm = random.chance(80);
        let keys = draw_keys(random, lease);
        let horizon = random.between(lease * 10, lease * 40).max(Duration::from_secs(10));
        let troubles =
            if is_calm { Vec::new() } else { draw_troubles(random, nodes, lease, horizon) };
        let is_cached = random.chance(300);
        let operations = draw_operations(random, &keys, lease, horizon);
        Self {
            nodes,
            limits: draw_limits(random, lease),
            is_cached,
            is_watched: random.chance(300),
            odds: if is_calm { Odds::default() } else { Odds::draw(random) },
            horizon,
            sweep_every: random.between(lease, lease * 10),
            keys,
            operations,
            troubles,
        }
    }
}

fn draw_keys(random: &mut Random, lease: Duration) -> Vec<PlannedKey> {
    let scopes = 1 + random.index(3);
    // The same names in every scope: they must not see each other (I7).
    let names = 1 + random.index(3);
    let mut keys = Vec::new();
    for scope in 0..scopes {
        let policy = draw_policy(random, lease);
        for name in 0..names {
            let key = Key::parse(&format!("order-{name}")).expect("a fine key");
            let scope = Scope::new([("who", format!("customer-{scope}"))]);
            keys.push(PlannedKey {
                id: RecordId::new("simulator", &scope, &key),
                policy: policy.clone(),
                id_without_scope: RecordId::new("simulator", &Scope::global(), &key),
            });
        }
    }
    keys
}

fn draw_policy(random: &mut Random, lease: Duration) -> Policy {
    use OnAbandoned::{Fail, Hold, Reexecute};
    let day = Duration::from_hours(24);
    let wait = random.between(lease / 3, (lease * 3).min(Duration::from_secs(3)));
    Policy::builder()
        .lease(lease)
        .ttl(random.pick([lease * 2, lease * 5, lease * 20, day, day]))
        .in_flight(random.pick([
            InFlight::Conflict,
            InFlight::Accepted,
            InFlight::Wait(wait),
            InFlight::Wait(wait),
        ]))
        .on_abandoned(random.pick([Reexecute, Reexecute, Hold, Hold, Fail]))
        .on_unknown(random.pick([OnUnknown::Release, OnUnknown::Hold]))
        .on_store_down(random.pick([
            OnStoreDown::Closed,
            OnStoreDown::Closed,
            OnStoreDown::Closed,
            OnStoreDown::Open,
        ]))
        .build()
        .expect("a fine policy")
}

fn draw_limits(random: &mut Random, lease: Duration) -> Limits {
    let second = Duration::from_secs(1);
    Limits {
        executions_max: random.pick([2, 4, 1_000, 1_000]),
        waiters_max: random.pick([1, 3, 1_000, 1_000]),
        waiters_per_record_max: random.pick([1, 2, 1_000, 1_000]),
        // A long one lets a node take up a lease that has run out by then.
        verb_timeout: random.pick([lease / 3, second, second * 3, lease * 5]),
        settle_timeout: random.pick([lease / 3, second * 3, lease * 3]),
    }
}

/// In bursts around a few moments, so that attempts on one key meet; and after the record has expired.
fn draw_operations(
    random: &mut Random,
    keys: &[PlannedKey],
    lease: Duration,
    horizon: Duration,
) -> Vec<Operation> {
    let moments: [Duration; 5] =
        std::array::from_fn(|_| random.between(Duration::ZERO, horizon * 2 / 3));
    let count = 12 + random.index(22);
    let mut operations = Vec::with_capacity(count);
    for _ in 0..count {
        let key = random.index(keys.len());
        let ttl = keys[key].policy.ttl();
        let again = if ttl < horizon && random.chance(300) { ttl } else { Duration::ZERO };
        let spread = random.pick([lease / 10, lease, lease * 3]);
        operations.push(Operation {
            key,
            request: u8::from(random.chance(120)),
            at: random.pick(moments) + again + random.between(Duration::ZERO, spread),
            tries: 1 + u32::from(random.chance(800)) * 5,
            client_timeout: random.pick([lease / 3, lease, lease * 4, lease * 20]),
            pause: random.between(lease / 10, lease),
        });
    }
    operations
}

fn draw_troubles(
    random: &mut Random,
    nodes: usize,
    lease: Duration,
    horizon: Duration,
) -> Vec<Trouble> {
    let count = random.index(12);
    let mut troubles = Vec::with_capacity(count);
    for _ in 0..count {
        let at = random.between(Duration::ZERO, horizon * 3 / 4);
        let kind = draw_trouble(random, nodes, lease);
        let lasts = if matches!(kind, TroubleKind::Outage { .. }) {
            // Most of them outlast a lease: what was executed meanwhile cannot be settled in time.
            random.between(lease / 2, lease * 5)
        } else {
            // Half of them end before a lease runs out.
            let longest = random.pick([lease, lease * 4]);
            random.between(lease / 10, longest)
        };
        troubles.push(Trouble { at, lasts: lasts.min(horizon.saturating_sub(at)), kind });
        if matches!(kind, TroubleKind::Outage { .. }) && random.chance(300) {
            troubles.push(draw_relapse(random, at + lasts, lease, horizon));
        }
    }
    troubles
}

/// The store is back, and goes down again before all pending outcomes are settled.
fn draw_relapse(
    random: &mut Random,
    back: Duration,
    lease: Duration,
    horizon: Duration,
) -> Trouble {
    let at = (back + random.between(Duration::ZERO, lease / 4)).min(horizon);
    let lasts = random.between(lease / 10, lease.max(Duration::from_secs(5)));
    let kind = TroubleKind::Outage { hangs: random.chance(500) };
    Trouble { at, lasts: lasts.min(horizon.saturating_sub(at)), kind }
}

fn draw_trouble(random: &mut Random, nodes: usize, lease: Duration) -> TroubleKind {
    let node = random.index(nodes);
    let lease_ms = i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    match random.below(14) {
        0 | 1 => {
            let (requests, answers) = random.pick([(true, true), (true, false), (false, true)]);
            TroubleKind::Partition { node, requests, answers }
        }
        2..=4 => TroubleKind::Outage { hangs: random.chance(500) },
        5 | 6 => TroubleKind::Restart,
        7 | 8 => TroubleKind::Crash { node },
        9..=11 => TroubleKind::Pause { node },
        12 => TroubleKind::Shutdown { node },
        _ => {
            TroubleKind::Clock { by_ms: lease_ms / 4 * random.pick([-40, -6, -2, -1, 1, 2, 6, 40]) }
        }
    }
}

// === impl Odds ===

impl Odds {
    fn draw(random: &mut Random) -> Self {
        let most = random.pick([0, 20, 60, 150]);
        let mut odds = || random.below(most + 1);
        let (request_lost, answer_lost, refused) = (odds(), odds(), odds());
        let (late, duplicated, damaged) = (odds(), odds(), odds() / 10);
        Self { request_lost, answer_lost, refused, late, duplicated, damaged }
    }
}

/// The fingerprint of a request.
pub(crate) fn fingerprint(key: usize, request: u8) -> Fingerprint {
    Fingerprint::new([("body", format!("key {key}, request {request}"))])
}
