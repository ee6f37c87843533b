//! The HTTP contract of Semel: keys, scopes, fingerprints, stored replies, problems, and the tower
//! layers that tie them to an engine, or to a handler's own transaction.
//!
//! A request's way through a [`SemelLayer`], one module after the other:
//!
//! 1. `routes`: which [`RoutePolicy`] it comes under
//! 2. `extract`: its key, and who sent it (the scope)
//! 3. `layer::admit`, `layer::reading`: its body is read, before anything is claimed
//! 4. `fingerprint`: what must be equal when the key comes again
//! 5. the engine claims; `layer::execute` calls the inner service, detached from the connection,
//!    and `layer::keep` turns its reply into an outcome (`stored_reply`)
//! 6. `layer::answer`: the engine's answer as a response, with the headers of the contract
//!    (`headers`), or as a [`Problem`](problem::Problem)
//!
//! `policy` has the settings of a route, `source` where keys and identities come from, `json` the
//! canonical form of bodies, `observe` what is counted and logged.
//!
//! Through a [`KeyedLayer`] it is the same way, but for the fifth step: there the handler claims,
//! executes and settles in a transaction of its own, with the [`Keyed`] that it is given.
//!
//! Both layers have an example.

mod extract;
mod fingerprint;
pub mod headers;
pub mod json;
mod layer;
mod observe;
mod policy;
pub mod problem;
mod retry_after;
mod routes;
mod source;
mod stored_reply;

pub use extract::ClientIp;
pub use layer::{
    Keyed, KeyedLayer, KeyedService, MatchedRoute, OutcomeKind, ReplyBody, RequestBody,
    ResponseBody, ResponseFuture, Semel, SemelLayer, TimedOut,
};
pub use observe::metric;
pub use policy::{
    KeyRule, Mode, OnMissingScope, Preset, Profile, RoutePolicy, RoutePolicyBuilder,
    RoutePolicyError, RoutePolicyFault, StatusPattern, StatusPatternError, UnknownChoice,
};
pub use routes::{Route, RouteError, Routes};
pub use source::{JwtClaim, PartSource, ScopeSource, SourceError};
pub use stored_reply::{StoredBody, StoredReply, StoredReplyError};
