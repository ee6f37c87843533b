//! The policy of one route: the core's rules, and what HTTP adds to them.

mod builder;
mod bundle;
mod choices;
mod status;

pub use builder::{RoutePolicyBuilder, RoutePolicyError, RoutePolicyFault};
pub use bundle::Bundle;
pub use choices::{
    EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PathComparison, Preset, Profile,
    UnknownChoice,
};
pub use status::{StatusPattern, StatusPatternError};

pub(crate) use status::StatusMeaning;

use std::time::Duration;

use http::header::{HeaderName, HeaderValue};
use http::{Method, StatusCode};
use semel_core::{KeyLimits, OnUnknown, Policy};
use semel_engine::ScopeLimits;

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
    /// Which requests need a key.
    pub key: KeyRule,
    /// Where the key is looked for, in this order, but in headers before the body.
    pub key_from: Vec<PartSource>,
    /// Which keys are accepted.
    pub key_limits: KeyLimits,
    /// What makes up the client identity; all of it.
    pub scope: Vec<ScopeSource>,
    /// What happens to requests without a client identity.
    pub on_missing_scope: OnMissingScope,
    /// What becomes of claims in `scope`, if tokens are not verified.
    pub jwt_unverified: JwtUnverified,
    /// How much of each client may execute, how many new keys it may send, and how much it may have recorded, on this
    /// route and in this process.
    /// It holds for clients that the scope tells apart: not for those without an identity, nor under `global`.
    pub scope_limits: ScopeLimits,
    /// How the upstream compares capitals and small letters in a path.
    pub path_case: PathComparison,
    /// How the upstream compares `/a/` and `//a` with `/a`.
    pub path_slash: PathComparison,
    /// What becomes of a path with `%2F` or `%5C`.
    pub path_encoded_slash: EncodedSlash,
    /// Which headers are part of the fingerprint, besides those that always are.
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
    /// True if `Set-Cookie` headers are stored and replayed.
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

/// What a route does with a request, by its method and the route's rule, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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

    /// What a status means for the outcome.
    pub(crate) fn classify(&self, status: StatusCode) -> StatusMeaning {
        let best = |patterns: &[StatusPattern]| {
            let covering = patterns.iter().filter(|pattern| pattern.covers(status));
            covering.map(|pattern| pattern.precision()).max()
        };
        match (best(&self.release_statuses), best(&self.unknown_statuses)) {
            (None, None) => StatusMeaning::Kept,
            // Equal ones are refused by the builder. In a policy made by hand the safer side wins.
            (released, unknown) if released > unknown => StatusMeaning::Released,
            _ => StatusMeaning::Unknown,
        }
    }

    /// The same where no outcome is unknown: work in a transaction that was not committed did
    /// not take effect.
    pub(crate) fn classify_in_transaction(&self, status: StatusCode) -> StatusMeaning {
        if self.release_statuses.iter().any(|pattern| pattern.covers(status)) {
            StatusMeaning::Released
        } else {
            StatusMeaning::Kept
        }
    }

    /// True if requests that carry no credential share one scope, so that one of these clients can be
    /// answered with what another one was.
    pub fn may_be_anonymous(&self) -> bool {
        let identifies_all =
            |source: &ScopeSource| matches!(source, ScopeSource::ClientIp | ScopeSource::Global);
        self.mode != Mode::Off
            && self.on_missing_scope == OnMissingScope::Anonymous
            && !self.scope.iter().any(identifies_all)
    }

    /// True if the scope has a claim of a token, which is read as it stands unless the layer verifies
    /// tokens.
    pub fn reads_tokens(&self) -> bool {
        self.scope.iter().any(|source| matches!(source, ScopeSource::Jwt(_)))
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
