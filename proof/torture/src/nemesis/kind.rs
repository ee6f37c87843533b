//! The kinds of faults.

use std::fmt;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// `kill -9` of a gateway, and a start.
    GatewayKill,
    /// SIGSTOP of a gateway for longer than the lease, and SIGCONT.
    GatewayPause,
    /// A rolling restart: SIGTERM of each gateway in turn, and a start.
    GatewayTerm,
    /// Everything between clients and a gateway takes longer.
    FrontLatency,
    /// Few bytes a second between clients and a gateway.
    FrontSlow,
    /// Nothing gets through one way between clients and a gateway.
    FrontBlackHole,
    /// Connections of clients are closed after some bytes.
    FrontCut,
    /// Connections of clients are reset in mid-reply.
    FrontReset,
    /// Connections of clients lose their bytes silently.
    FrontHalfOpen,
    /// Everything between a gateway and the store takes longer.
    BackLatency,
    /// Few bytes a second between a gateway and the store.
    BackSlow,
    /// Nothing gets through one way between a gateway and the store.
    BackBlackHole,
    /// Connections to the store are closed after some bytes.
    BackCut,
    /// Connections to the store are reset in mid-reply.
    BackReset,
    /// Connections to the store lose their bytes silently.
    BackHalfOpen,
    /// Connections to the store that are there stand still, and new ones do not. What was sent on the old ones
    /// arrives in the end, though its sender has closed them, unless it has reset them.
    BackLate,
    /// `kill -9` of the store's server, and a start.
    StoreKill,
    /// SIGSTOP of the store's server, and SIGCONT.
    StorePause,
    /// A restart of the store's server; in a cluster of a replica. Half of PostgreSQL's are unclean.
    StoreRestart,
    /// The store's server is down, mostly for longer than the lease: killed, stopped or frozen. Of a cluster it is a
    /// master together with its replica, so that there is no promotion.
    StoreOutage,
    /// The memory of the store's server is full, and freed again: what is there may be written, nothing may be added.
    StoreFull,
    /// A cluster's master is killed, and its replica promoted.
    StoreFailover,
    /// A cluster's replica takes over by an orderly failover.
    StoreHandover,
    /// `kill -9` of the Redis before PostgreSQL, which forgets everything.
    NearKill,
    /// SIGSTOP of the Redis before PostgreSQL.
    NearPause,
    /// The store's clock jumps forward, by up to a minute.
    ClockForward,
    /// The store's clock jumps back, by some seconds.
    ClockBack,
    /// The disk of an embedded store is full.
    DiskFull,
}

/// Faults that a run has several of at a time are in several groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Of gateways.
    Gateway,
    /// Of the network between clients and gateways.
    Front,
    /// Of the network between gateways and the store.
    Back,
    /// Of the store.
    Store,
}

// === impl Kind ===

impl Kind {
    /// All of them.
    pub const ALL: [Self; 28] = [
        Self::GatewayKill,
        Self::GatewayPause,
        Self::GatewayTerm,
        Self::FrontLatency,
        Self::FrontSlow,
        Self::FrontBlackHole,
        Self::FrontCut,
        Self::FrontReset,
        Self::FrontHalfOpen,
        Self::BackLatency,
        Self::BackSlow,
        Self::BackBlackHole,
        Self::BackCut,
        Self::BackReset,
        Self::BackHalfOpen,
        Self::BackLate,
        Self::StoreKill,
        Self::StorePause,
        Self::StoreRestart,
        Self::StoreOutage,
        Self::StoreFull,
        Self::StoreFailover,
        Self::StoreHandover,
        Self::NearKill,
        Self::NearPause,
        Self::ClockForward,
        Self::ClockBack,
        Self::DiskFull,
    ];

    /// As in a history and on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GatewayKill => "gateway-kill",
            Self::GatewayPause => "gateway-pause",
            Self::GatewayTerm => "gateway-term",
            Self::FrontLatency => "front-latency",
            Self::FrontSlow => "front-slow",
            Self::FrontBlackHole => "front-black-hole",
            Self::FrontCut => "front-cut",
            Self::FrontReset => "front-reset",
            Self::FrontHalfOpen => "front-half-open",
            Self::BackLatency => "back-latency",
            Self::BackSlow => "back-slow",
            Self::BackBlackHole => "back-black-hole",
            Self::BackCut => "back-cut",
            Self::BackReset => "back-reset",
            Self::BackHalfOpen => "back-half-open",
            Self::BackLate => "back-late",
            Self::StoreKill => "store-kill",
            Self::StorePause => "store-pause",
            Self::StoreRestart => "store-restart",
            Self::StoreOutage => "store-outage",
            Self::StoreFull => "store-full",
            Self::StoreFailover => "store-failover",
            Self::StoreHandover => "store-handover",
            Self::NearKill => "near-kill",
            Self::NearPause => "near-pause",
            Self::ClockForward => "clock-forward",
            Self::ClockBack => "clock-back",
            Self::DiskFull => "disk-full",
        }
    }

    /// Faults of one group come one after the other.
    pub const fn group(self) -> Group {
        match self {
            Self::GatewayKill | Self::GatewayPause | Self::GatewayTerm => Group::Gateway,
            Self::FrontLatency
            | Self::FrontSlow
            | Self::FrontBlackHole
            | Self::FrontCut
            | Self::FrontReset
            | Self::FrontHalfOpen => Group::Front,
            Self::BackLatency
            | Self::BackSlow
            | Self::BackBlackHole
            | Self::BackCut
            | Self::BackReset
            | Self::BackHalfOpen
            | Self::BackLate => Group::Back,
            _ => Group::Store,
        }
    }

    /// True if a gateway loses all its state in memory.
    pub const fn ends_gateways(self) -> bool {
        matches!(self, Self::GatewayKill | Self::GatewayTerm)
    }

    /// Kinds by name: of a fault (`store-kill`), or of all that begin so (`store`).
    pub fn named(name: &str) -> anyhow::Result<Vec<Self>> {
        let begins =
            |kind: &Self| kind.as_str() == name || kind.as_str().starts_with(&format!("{name}-"));
        let found: Vec<Self> = Self::ALL.into_iter().filter(begins).collect();
        anyhow::ensure!(!found.is_empty(), "no fault is called {name:?}");
        Ok(found)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
