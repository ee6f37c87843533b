//! The counter of limits that were reached.

use metrics::{Counter, counter};

use crate::metric;

/// A limit of the gateway itself. Most have the name of their setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limit {
    Connections,
    Descriptors,
    ExecutionsLeftBehind,
    ExecutionsPerConnection,
    ResetsPerConnection,
    UpstreamConnections,
}

// === impl Limit ===

impl Limit {
    const ALL: [Self; 6] = [
        Self::Connections,
        Self::Descriptors,
        Self::ExecutionsLeftBehind,
        Self::ExecutionsPerConnection,
        Self::ResetsPerConnection,
        Self::UpstreamConnections,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Connections => "max_connections",
            Self::Descriptors => "descriptors",
            Self::ExecutionsLeftBehind => "executions_left_behind",
            Self::ExecutionsPerConnection => "max_executions_per_connection",
            Self::ResetsPerConnection => "max_resets_per_connection",
            Self::UpstreamConnections => "max_upstream_connections",
        }
    }

    fn counter(self) -> Counter {
        counter!(metric::LIMITS_REACHED_TOTAL, "limit" => self.word())
    }

    /// Counts a connection or request that was refused or closed at this limit.
    pub(crate) fn reached(self) {
        self.counter().increment(1);
    }

    /// Starts the counter at zero for every limit.
    pub(crate) fn start_counting() {
        for limit in Self::ALL {
            limit.counter().increment(0);
        }
    }
}
