//! Requests in work whose connections have ended.
//!
//! An execution continues when its client disconnects (I9), and a new connection begins with a count of zero. So work
//! that ended connections left behind is counted by address. While an address is at the limit, connections that it
//! opens are refused; those that were open before are served, and so are other addresses. Behind a load balancer many
//! clients have one address: the limit leaves room for ordinary hang-ups, and each connection keeps counts of its own.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_log::Throttle;
use tracing::Level;

use super::load::{Load, LoadLimits};

/// The counts of all addresses. IPv6 is counted by network, since a client has a whole one.
#[derive(Debug)]
pub(crate) struct Leftovers {
    by_network: Mutex<ByNetwork>,
    closed: Throttle,
    refused: Throttle,
}

#[derive(Debug, Default)]
struct ByNetwork {
    counts: HashMap<IpAddr, Arc<LeftBehind>>,
    /// The size at which addresses without work are removed.
    prune_at: usize,
}

/// How many requests are in work that ended connections of one address left behind.
///
/// Signed: a request that ends at the same time as its connection may be subtracted before it is added.
#[derive(Debug, Default)]
pub(crate) struct LeftBehind(AtomicI64);

/// Ends the counting of a connection when it is dropped.
#[must_use]
pub(crate) struct Leaving<'a> {
    leftovers: &'a Leftovers,
    load: &'a Arc<Load>,
    client: IpAddr,
}

/// The largest number of addresses (I10). Each has a running execution, and the number of those is limited.
const NETWORKS_MAX: usize = 10_000;
/// The smallest size at which addresses without work are removed.
const PRUNE_MIN: usize = 64;

// === impl Leftovers ===

impl Default for Leftovers {
    fn default() -> Self {
        Self {
            by_network: Mutex::default(),
            closed: Throttle::of("a connection was closed for its resets", Level::WARN),
            refused: Throttle::of("an address left too much behind", Level::WARN),
        }
    }
}

impl Leftovers {
    /// The counts of a new connection.
    pub(crate) fn load_for(&self, client: IpAddr, limits: LoadLimits) -> Arc<Load> {
        let left = self.lock().counts.get(&network(client)).cloned();
        let is_at_limit = |left: &Arc<LeftBehind>| left.count() >= limits.left_behind;
        Arc::new(Load::new(limits, left.filter(is_at_limit)))
    }

    /// Counts what a connection leaves behind when the returned value is dropped.
    pub(crate) const fn leaving<'a>(&'a self, client: IpAddr, load: &'a Arc<Load>) -> Leaving<'a> {
        Leaving { leftovers: self, load, client }
    }

    fn leave(&self, client: IpAddr, load: &Arc<Load>) {
        if load.in_work() > 0 {
            // Under the lock, so that the count is not removed before it is added to.
            let mut by_network = self.lock();
            if let Some(left) = by_network.count_of(network(client)) {
                load.leave(left);
            }
        }
    }

    /// Logs that a connection was closed for its resets.
    pub(crate) fn log_closed(&self, client: IpAddr, max: u32) {
        self.closed.line(|left_out| {
            tracing::warn!(%client, max, left_out, "a connection was closed whose client resets its requests");
        });
    }

    /// Logs that a request was refused for the work that its address left behind.
    pub(crate) fn log_refused(&self, client: IpAddr, count: u32, max: u32) {
        self.refused.line(|left_out| {
            tracing::warn!(
                %client, count, max, left_out,
                "new connections of an address are refused: its clients closed connections with requests in work"
            );
        });
    }

    fn lock(&self) -> MutexGuard<'_, ByNetwork> {
        // No code panics while it holds the lock.
        self.by_network.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ByNetwork ===

impl ByNetwork {
    /// `None` for a new address when there are too many.
    fn count_of(&mut self, network: IpAddr) -> Option<&Arc<LeftBehind>> {
        if self.counts.len() >= self.prune_at.max(PRUNE_MIN) {
            self.counts.retain(|_, left| left.count() > 0 || Arc::strong_count(left) > 1);
            // The cost of a removal is spread over as many insertions.
            self.prune_at = 2 * self.counts.len();
        }
        if self.counts.len() >= NETWORKS_MAX {
            // At the limit nothing is inserted: the next removal comes after as many connections instead.
            self.prune_at = self.prune_at.saturating_sub(1);
            return self.counts.get(&network);
        }
        Some(self.counts.entry(network).or_default())
    }
}

// === impl LeftBehind ===

impl LeftBehind {
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.0.load(Ordering::Relaxed).max(0)).unwrap_or(u32::MAX)
    }

    pub(crate) fn add(&self, requests: u32) {
        self.0.fetch_add(i64::from(requests), Ordering::Relaxed);
    }

    pub(crate) fn remove_one(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

// === impl Leaving ===

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.leftovers.leave(self.client, self.load);
    }
}

fn network(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V4(ip) => ip.into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::load::Full;
    use super::*;

    const LIMITS: LoadLimits = LoadLimits { in_work: 2, resets: 0, left_behind: 3 };

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn parallel_connections_add_up_until_their_work_ends() {
        let (left, here) = (Leftovers::default(), ip("10.0.0.1"));
        let loads = [left.load_for(here, LIMITS), left.load_for(here, LIMITS)];
        let mut work = Vec::new();
        for load in &loads {
            work.extend([
                load.begin().expect("below the limit"),
                load.begin().expect("below the limit"),
            ]);
        }
        let mut before = vec![left.load_for(here, LIMITS)];
        for load in &loads {
            drop(left.leaving(here, load));
            // After the first there are two, which is under the limit.
            before.push(left.load_for(here, LIMITS));
        }
        before.pop();
        let later = left.load_for(here, LIMITS);
        assert_eq!(later.begin().err(), Some(Full::Address(4)));
        assert!(before.iter().all(|load| load.begin().is_ok()), "they were open before");
        assert!(left.load_for(ip("10.0.0.2"), LIMITS).begin().is_ok(), "another address");
        work.truncate(2);
        assert!(later.begin().is_ok(), "there are two");
        work.clear();
        assert_eq!(left.lock().counts[&here].count(), 0);
    }

    #[test]
    fn connections_of_one_address_have_counts_of_their_own() {
        let (left, here) = (Leftovers::default(), ip("10.0.0.1"));
        let load = left.load_for(here, LIMITS);
        let work = [load.begin().expect("below the limit"), load.begin().expect("below the limit")];
        assert!(load.was_reset());
        drop(left.leaving(here, &load));
        let (one, other) = (left.load_for(here, LIMITS), left.load_for(here, LIMITS));
        assert!(!one.is_too_much(), "it has reset nothing");
        let _busy = [one.begin().expect("below the limit"), one.begin().expect("below the limit")];
        assert!(one.was_reset() && !other.is_too_much());
        assert!(other.begin().is_ok() && load.is_too_much());
        // Work that ends is no longer counted, though connections of the address remain.
        drop(work);
        assert_eq!(left.lock().counts[&here].count(), 0);
    }

    #[test]
    fn addresses_without_work_are_removed() {
        let left = Leftovers::default();
        for number in 0..1_000_u32 {
            let client = IpAddr::V4(number.into());
            let load = left.load_for(client, LIMITS);
            let work = load.begin();
            drop(left.leaving(client, &load));
            drop(work);
        }
        assert!(left.lock().counts.len() <= PRUNE_MIN);
    }

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let network = |text: &str| network(ip(text));
        assert_eq!(network("2001:db8::1"), network("2001:db8::ffff:1"));
        assert_ne!(network("2001:db8::1"), network("2001:db8:0:1::1"));
        assert_eq!(network("::ffff:10.0.0.1"), network("10.0.0.1"));
    }
}
