//! The proxy's log lines about the upstream, each kind at most once a second: otherwise every request in an outage
//! would write one.

use semel_log::Throttle;
use tracing::Level;

/// The kinds of lines of one upstream.
#[derive(Debug)]
pub(crate) struct Lines {
    pub(crate) busy: Throttle,
    pub(crate) unreachable: Throttle,
    pub(crate) lost: Throttle,
    pub(crate) late: Throttle,
    pub(crate) switched: Throttle,
}

// === impl Lines ===

impl Default for Lines {
    fn default() -> Self {
        let kind = |kind| Throttle::of(kind, Level::WARN);
        Self {
            busy: kind("a request was refused for want of an upstream connection"),
            unreachable: kind("the upstream cannot be reached"),
            lost: kind("the upstream broke off"),
            late: kind("the upstream took too long"),
            switched: kind("the upstream switched protocols unasked"),
        }
    }
}
