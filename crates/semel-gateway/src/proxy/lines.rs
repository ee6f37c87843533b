//! The proxy's log lines about the upstream, each kind at most once a second: otherwise every request in an outage
//! would write one.

use semel_log::Throttle;
use tracing::Level;

use crate::failure::Failure;

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

impl Lines {
    pub(crate) fn log(&self, failure: &Failure) {
        match failure {
            Failure::Busy(busy) => self.busy.line(|left_out| {
                let why = busy.to_string();
                tracing::warn!(why, left_out, "a request was refused");
            }),
            Failure::NotSent(error) | Failure::NoTunnel(error) => {
                self.unreachable.line(|left_out| {
                    tracing::warn!(%error, left_out, "the upstream cannot be reached");
                });
            }
            Failure::Lost(error) => self.lost.line(|left_out| {
                tracing::warn!(%error, left_out, "the upstream broke off");
            }),
            Failure::Late { limit } => self.late.line(|left_out| {
                tracing::warn!(?limit, left_out, "the upstream took too long");
            }),
            Failure::Switched => self.switched.line(|left_out| {
                tracing::warn!(left_out, "the upstream switched protocols unasked");
            }),
            // What its client caused, or what concerns one tunnel alone.
            _ => {}
        }
    }
}

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
