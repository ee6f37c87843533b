//! The policy of one route: the core's rules, and what HTTP adds to them.

mod builder;
mod choices;
mod status;

pub use builder::{RoutePolicyBuilder, RoutePolicyError, RoutePolicyFault};
pub use choices::{KeyRule, Mode, OnMissingScope, Preset, Profile, UnknownChoice};
pub use status::{StatusPattern, StatusPatternError};

pub(crate) use status::StatusSays;

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use semel_core::{KeyLimits, OnUnknown, Policy};

use crate::json::Pointer;
use crate::source::{PartSource, ScopeSource};

/// Everything that is decided per route. Made by [`RoutePolicy::builder`], which refuses what
/// cannot work.
///
/// ```
/// use std::time::Duration;
/// use semel_http::{Preset, RoutePolicy};
///
/// let policy = RoutePolicy::builder()
///     .preset(Preset::Payments)
///     .lease(Duration::from_secs(10))
///     .build()?;
/// assert_eq!(policy.core.ttl(), Duration::from_hours(48));
/// # Ok::<(), semel_http::RoutePolicyError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RoutePolicy {
    /// Protect, only watch, or leave alone.
    pub mode: Mode,
    /// Which profile the choices started from.
    pub profile: Profile,
    /// Which preset was laid over them.
    pub preset: Option<Preset>,
    /// Lease, retention, and what happens when things go wrong.
    pub core: Policy,
    /// Does a request need a key?
    pub key: KeyRule,
    /// Where the key is looked for, in this order, but in headers before the body.
    pub key_from: Vec<PartSource>,
    /// Which keys are accepted.
    pub key_limits: KeyLimits,
    /// What makes up the client identity; all of it.
    pub scope: Vec<ScopeSource>,
    /// What happens to those who bring none.
    pub on_missing_scope: OnMissingScope,
    /// Which headers are part of the fingerprint, besides method, path, query and body.
    pub fingerprint_headers: Vec<HeaderName>,
    /// Which members of a JSON body are not.
    pub fingerprint_ignore: Vec<Pointer>,
    /// Statuses that hand the lease back, so that a retry executes again. All others are kept, but for
    /// those in `unknown_statuses`.
    pub release_statuses: Vec<StatusPattern>,
    /// Statuses that do not tell whether the work took effect: `on_unknown` decides what becomes of
    /// them. A single status wins over a class in the other list.
    pub unknown_statuses: Vec<StatusPattern>,
    /// The status of a mismatch.
    pub mismatch_status: StatusCode,
    /// What a replay carries besides the stored headers.
    pub replay_headers: Vec<(HeaderName, HeaderValue)>,
    /// Are `Set-Cookie` headers kept and replayed?
    pub replay_cookies: bool,
    /// Where the id of what was made is found in a reply.
    pub result_from: Option<PartSource>,
    /// The largest request body that is read.
    pub max_request_body: u64,
    /// How long a request body may take to arrive.
    pub request_body_timeout: Duration,
    /// The largest reply body that is kept. Of larger ones only status and headers are.
    pub max_reply_body: u64,
    /// How long the upstream of a gateway may take. The layer itself does not cut a handler off:
    /// a handler knows best when to give up.
    pub upstream_timeout: Duration,
}

/// What a route does with a request, by its method and the route's rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It is passed on untouched.
    Pass,
    /// It is protected if it brings a key.
    Optional,
    /// It must bring a key.
    Required,
}

// === impl RoutePolicy ===

impl RoutePolicy {
    /// Starts from the profile `classic`.
    pub fn builder() -> RoutePolicyBuilder {
        RoutePolicyBuilder::default()
    }

    pub(crate) fn need(&self, method: &Method) -> Need {
        if self.mode == Mode::Off {
            return Need::Pass;
        }
        match (self.key, method.as_str()) {
            // A tunnel has no answer that could be kept, and browsers ask for permission with
            // OPTIONS before they send any header of ours.
            (_, "CONNECT" | "OPTIONS" | "TRACE") | (KeyRule::ByMethod, "GET" | "HEAD") => {
                Need::Pass
            }
            (KeyRule::Required, _) | (KeyRule::ByMethod, "POST" | "PATCH") => Need::Required,
            (KeyRule::Optional | KeyRule::ByMethod, _) => Need::Optional,
        }
    }

    /// What a status says about the work.
    pub(crate) fn says(&self, status: StatusCode) -> StatusSays {
        let best = |patterns: &[StatusPattern]| {
            let covering = patterns.iter().filter(|pattern| pattern.covers(status));
            covering.map(|pattern| pattern.precision()).max()
        };
        match (best(&self.release_statuses), best(&self.unknown_statuses)) {
            (None, None) => StatusSays::Kept,
            // Equal ones are refused by the builder. In a policy made by hand the safer side wins.
            (released, unknown) if released > unknown => StatusSays::Released,
            _ => StatusSays::Unknown,
        }
    }

    /// What a status says where nothing is unknown: work in a transaction that was not committed did
    /// not take effect.
    pub(crate) fn says_in_transaction(&self, status: StatusCode) -> StatusSays {
        if self.release_statuses.iter().any(|pattern| pattern.covers(status)) {
            StatusSays::Released
        } else {
            StatusSays::Kept
        }
    }

    /// True if a key is released when the outcome of its work is unknown, so that a retry may execute
    /// the work a second time.
    pub fn releases_unknown(&self) -> bool {
        self.mode == Mode::Protect && self.core.on_unknown() == OnUnknown::Release
    }
}

impl Default for RoutePolicy {
    fn default() -> Self {
        // The defaults hold together, which a test sees to.
        RoutePolicyBuilder::default().unchecked()
    }
}

#[cfg(test)]
mod tests;
