//! What one run of the model is about: the rules, the mistake, and what keeps the space finite.

use std::time::Duration;

use semel_core::{OnAbandoned, OnUnknown, Policy};

use crate::state::{LIVES, RECORDS};

/// One tick of the model's clock. The shortest lease that a policy accepts is one tick.
pub(crate) const TICK_MS: u64 = 10;

/// The limits of one run. Crashes, lost replies, renewals and sweeps need none: they add no
/// memory of their own.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// How many attempts arrive for each record.
    pub(crate) arrivals: [u8; RECORDS],
    /// Which of them, by number, is another request under the same key.
    pub(crate) mismatching: Option<u8>,
    pub(crate) lease: u8,
    pub(crate) ttl: u8,
    /// The last moment; before the end of the last life that the model distinguishes.
    pub(crate) end: u8,
    pub(crate) network: Network,
}

/// What the network may do to a message and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Network {
    /// Take its time, and lose the reply.
    LosesReplies,
    /// Also let a message land after its sender gave up on it.
    Strays,
}

/// A store or a node that gets the protocol wrong, to show that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// Renew, settle and release write for any lease (trap 1).
    NoFenceCheck,
    /// A claim reads first and writes later (trap 2).
    CheckThenSet,
    /// A late copy of a claim is granted a lease after its owner has released.
    GrantsReleased,
    /// Retention counts from the first claim, not from a later grant.
    RetainsFromTheStart,
    /// The client is answered before its outcome is durable (trap 4).
    SettleAfterReply,
}

/// The system to check.
#[derive(Clone, Debug)]
pub(crate) struct System {
    pub(crate) bounds: Bounds,
    pub(crate) policy: Policy,
    pub(crate) mistake: Mistake,
}

// === impl System ===

impl System {
    pub(crate) fn new(bounds: Bounds, on_abandoned: OnAbandoned) -> Self {
        assert!(
            usize::from(bounds.end) < LIVES * usize::from(bounds.ttl),
            "more lives than the model distinguishes"
        );
        // A policy without a second execution after a crash has none after an unknown outcome either.
        let on_unknown = match on_abandoned {
            OnAbandoned::Reexecute => OnUnknown::Release,
            OnAbandoned::Fail | OnAbandoned::Hold => OnUnknown::Hold,
        };
        let policy = Policy::builder()
            .lease(ticks(bounds.lease))
            .ttl(ticks(bounds.ttl))
            .on_abandoned(on_abandoned)
            .on_unknown(on_unknown)
            .build()
            .expect("the bounds make a valid policy");
        Self { bounds, policy, mistake: Mistake::None }
    }

    pub(crate) fn with(self, mistake: Mistake) -> Self {
        Self { mistake, ..self }
    }
}

fn ticks(number: u8) -> Duration {
    Duration::from_millis(u64::from(number) * TICK_MS)
}
