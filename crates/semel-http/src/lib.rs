//! The HTTP contract of Semel: keys, scopes, fingerprints, stored replies, problems, and the tower
//! layers that tie them to an engine, or to a handler's own transaction.
//!
//! The stages of a request in a [`SemelLayer`], one module after the other:
//!
//! 1. `routes`: the [`RoutePolicy`] of its method and path
//! 2. `extract`: its key, and the identity of its client (the scope)
//! 3. `layer::admit`, `layer::reading`: its body is read before anything is claimed
//! 4. `fingerprint`: the hash that must be equal when the key is used again
//! 5. the engine claims; `layer::execute` calls the inner service, detached from the connection,
//!    and `layer::outcome` turns its reply into an outcome (`stored_reply`)
//! 6. `layer::answer`: the engine's answer as a response, with the headers of the contract
//!    (`headers`), or as a [`Problem`](problem::Problem)
//!
//! `policy` has the settings of a route, `source` the sources of keys and identities, `token` and
//! `jwt` (a feature) the verification of tokens, `json` the canonical form of bodies, `observe` observers,
//! metrics and log lines.
//!
//! An [`IdempotentLayer`] has the same stages except the fifth: there the handler claims, executes and
//! settles in a transaction of its own, through the [`IdempotentRequest`] in the request's extensions.
//!
//! Both layers have an example.

mod base64url;
mod extract;
mod fingerprint;
pub mod headers;
pub mod json;
#[cfg(feature = "jwt")]
pub mod jwt;
mod layer;
mod observe;
mod policy;
pub mod problem;
mod retry_after;
mod routes;
mod source;
mod stored_reply;
mod token;

pub use extract::ClientIp;
pub use layer::{
    IdempotentLayer, IdempotentRequest, IdempotentService, MatchedRoute, OutcomeKind, ReplyBody,
    RequestBody, ResponseBody, ResponseFuture, Semel, SemelLayer, TimedOut,
};
pub use observe::{Decided, ExecutionStart, RouteMetrics, RouteObserver, metric};
pub use policy::{
    Bundle, EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PathComparison, Preset,
    Profile, RoutePolicy, RoutePolicyBuilder, RoutePolicyError, RoutePolicyFault, StatusPattern,
    StatusPatternError, UnknownChoice,
};
pub use routes::{Route, RouteError, Routes, goes_up_after_empty_segment, leaves_root};
pub use source::{CookieName, JwtClaim, PartSource, ScopeSource, SourceError};
pub use stored_reply::{StoredBody, StoredReply, StoredReplyError};
pub use token::{TokenRefused, VerifiedToken, VerifyToken};
