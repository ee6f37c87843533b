use std::num::NonZero;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use semel_core::{
    InFlight, KeyFormat, KeyLimits, OnAbandoned, OnStoreDown, OnUnknown, Policy, PolicyFault,
};
use semel_engine::{Rate, ScopeLimits};

use super::{
    EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PathComparison, Preset, Profile,
    RoutePolicy, StatusPattern,
};
use crate::headers;
use crate::json::Pointer;
use crate::source::{PartSource, ScopeSource};

/// Collects the choices of a route. Later ones win, so a profile comes first, then a preset, then
/// single settings. [`build`](Self::build) checks them all together.
#[derive(Clone, Debug)]
pub struct RoutePolicyBuilder {
    policy: RoutePolicy,
    core: CoreChoices,
    kept: KeptChoices,
}

/// How much one client may have in the store. It becomes a rate once the `ttl` is known.
#[derive(Clone, Copy, Debug, Default)]
struct KeptChoices {
    records: Option<NonZero<u64>>,
    bytes: Option<NonZero<u64>>,
}

/// What becomes the core's policy.
#[derive(Clone, Copy, Debug)]
struct CoreChoices {
    lease: Duration,
    ttl: Duration,
    in_flight: InFlight,
    wait_timeout: Duration,
    on_abandoned: OnAbandoned,
    on_unknown: OnUnknown,
    on_store_down: OnStoreDown,
}

/// All that is wrong with a policy, at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
pub struct RoutePolicyError {
    /// The faults.
    pub faults: Vec<RoutePolicyFault>,
}

/// One thing that is wrong with a policy, with its cure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutePolicyFault {
    /// A fault of the core's rules.
    #[error(transparent)]
    Core(#[from] PolicyFault),
    /// A key must come from somewhere.
    #[error("key_from is empty; name at least one source, such as header:idempotency-key")]
    NoKeySource,
    /// An identity must come from somewhere.
    #[error(
        "scope is empty; name at least one source, or write global if all clients may share keys"
    )]
    NoScopeSource,
    /// `global` and an identity contradict each other.
    #[error("scope has global beside other sources; global alone, or the others without it")]
    GlobalBesideOthers,
    /// A key of no characters.
    #[error("key_max_length is {0}, and must be between 1 and 1024")]
    BadKeyMaxLength(usize),
    /// The upstream must give up before the record does.
    #[error("upstream_timeout ({timeout:?}) must be above zero and shorter than ttl ({ttl:?})")]
    UpstreamTimeoutNotShorterThanTtl {
        /// The time-out asked for.
        timeout: Duration,
        /// The retention asked for.
        ttl: Duration,
    },
    /// A body must get some time.
    #[error("request_body_timeout must be above zero and at most an hour")]
    BadRequestBodyTimeout,
    /// A client can write any claim into a token that nothing verifies.
    #[error(
        "jwt_unverified is warn, which the preset payments does not go with; write behind-a-verifier if \
         something in front verifies tokens, or refuse"
    )]
    UnverifiedPayments,
    /// A limit under which no request could execute.
    #[error("max_executions_per_scope is 0, so that nothing executes; write 1 or more")]
    NoExecutions,
    /// More than memory should hold for one request.
    #[error("{name} is {bytes} bytes, and must be at most 1 GiB")]
    BodyLimitTooLarge {
        /// Which limit.
        name: &'static str,
        /// What was asked for.
        bytes: u64,
    },
    /// A retry cannot both execute and be held.
    #[error(
        "release_statuses and unknown_statuses both have {0}; take it out of one of them: released, a retry executes; unknown, on_unknown decides"
    )]
    StatusReleasedAndUnknown(StatusPattern),
    /// An error status.
    #[error("mismatch_status is {0}, and must be an error status from 400 to 499")]
    BadMismatchStatus(u16),
    /// `Set-Cookie`, hop-by-hop fields and message framing are not marks of a replay.
    #[error("replay_headers has {0}, which the reply itself may carry; name another")]
    BadReplayHeader(HeaderName),
}

const BODY_MAX: u64 = 1 << 30;

// === impl RoutePolicyBuilder ===

impl Default for RoutePolicyBuilder {
    fn default() -> Self {
        let core = CoreChoices {
            lease: Duration::from_secs(30),
            ttl: Duration::from_hours(24),
            in_flight: InFlight::Conflict,
            wait_timeout: Duration::from_secs(10),
            on_abandoned: OnAbandoned::Reexecute,
            on_unknown: OnUnknown::Release,
            on_store_down: OnStoreDown::Closed,
        };
        let policy = RoutePolicy {
            mode: Mode::Protect,
            profile: Profile::Classic,
            preset: None,
            core: Policy::default(),
            key: KeyRule::ByMethod,
            key_from: vec![PartSource::Header(headers::IDEMPOTENCY_KEY)],
            key_limits: KeyLimits::default(),
            scope: vec![ScopeSource::Auto],
            on_missing_scope: OnMissingScope::Anonymous,
            jwt_unverified: JwtUnverified::Warn,
            scope_limits: ScopeLimits::default(),
            path_case: PathComparison::Exact,
            path_slash: PathComparison::Exact,
            path_encoded_slash: EncodedSlash::Refuse,
            fingerprint_headers: Vec::new(),
            fingerprint_ignore: Vec::new(),
            release_statuses: Vec::new(),
            unknown_statuses: Vec::new(),
            mismatch_status: StatusCode::CONFLICT,
            replay_headers: Vec::new(),
            replay_cookies: false,
            result_from: None,
            max_request_body: 1 << 20,
            request_body_timeout: Duration::from_secs(30),
            max_reply_body: 16 << 20,
            upstream_timeout: Duration::from_mins(1),
        };
        Self { policy, core, kept: KeptChoices::default() }.profile(Profile::Classic)
    }
}

impl RoutePolicyBuilder {
    /// Makes the choices of a profile.
    #[must_use]
    pub fn profile(mut self, profile: Profile) -> Self {
        self.policy.profile = profile;
        profile.apply(self)
    }

    /// Makes the choices of a preset.
    #[must_use]
    pub fn preset(mut self, preset: Preset) -> Self {
        self.policy.preset = Some(preset);
        preset.apply(self)
    }

    /// Sets the length of a key.
    #[must_use]
    pub const fn key_max_length(mut self, characters: usize) -> Self {
        self.policy.key_limits.max_len = characters;
        self
    }

    /// Sets the shape of a key.
    #[must_use]
    pub const fn key_format(mut self, format: KeyFormat) -> Self {
        self.policy.key_limits.format = format;
        self
    }

    /// How many requests of one client may execute at once: 1,000 unless said otherwise. One more is answered 429
    /// `too_many_keys`; what is replayed does not count.
    #[must_use]
    pub const fn max_executions_per_scope(mut self, executions: u32) -> Self {
        self.policy.scope_limits.executions_max = executions;
        self
    }

    /// How many keys that the store does not know one client may send: as many as it likes, unless said otherwise.
    #[must_use]
    pub const fn new_keys_per_scope(mut self, rate: Option<Rate>) -> Self {
        self.policy.scope_limits.new_keys = rate;
        self
    }

    /// How many records one client may begin in a `ttl`: as many as it likes, unless said otherwise. Of the records that
    /// were begun on this route and in this process, at most twice as many live at once; see
    /// [`ScopeLimits::records`].
    #[must_use]
    pub const fn max_records_per_scope(mut self, records: Option<NonZero<u64>>) -> Self {
        self.kept.records = records;
        self
    }

    /// How many bytes of replies one client may have recorded in a `ttl`: as many as it likes, unless said otherwise.
    /// See [`ScopeLimits::record_bytes`].
    #[must_use]
    pub const fn max_record_bytes_per_scope(mut self, bytes: Option<NonZero<u64>>) -> Self {
        self.kept.bytes = bytes;
        self
    }

    /// What a duplicate gets while the first attempt executes. The time of
    /// [`InFlight::Wait`] is that of [`wait_timeout`](Self::wait_timeout).
    #[must_use]
    pub const fn in_flight(mut self, in_flight: InFlight) -> Self {
        self.core.in_flight = in_flight;
        if let InFlight::Wait(timeout) = in_flight {
            self.core.wait_timeout = timeout;
        }
        self
    }

    /// The policy, or everything that is wrong with it.
    pub fn build(mut self) -> Result<RoutePolicy, RoutePolicyError> {
        let mut faults = self.faults();
        let in_ttl = |count| Rate::of(count, self.core.ttl);
        self.policy.scope_limits.records = self.kept.records.map(in_ttl);
        self.policy.scope_limits.record_bytes = self.kept.bytes.map(in_ttl);
        match self.core.build() {
            Ok(core) if faults.is_empty() => Ok(RoutePolicy { core, ..self.policy }),
            Ok(_) => Err(RoutePolicyError { faults }),
            Err(error) => {
                faults.extend(error.faults.into_iter().map(RoutePolicyFault::Core));
                Err(RoutePolicyError { faults })
            }
        }
    }

    pub(super) fn unchecked(self) -> RoutePolicy {
        self.policy
    }

    fn faults(&self) -> Vec<RoutePolicyFault> {
        use RoutePolicyFault as Fault;
        let policy = &self.policy;
        let mut faults = Vec::new();
        let mut check = |is_wrong: bool, fault: Fault| {
            if is_wrong {
                faults.push(fault);
            }
        };
        check(policy.key_from.is_empty(), Fault::NoKeySource);
        check(policy.scope.is_empty(), Fault::NoScopeSource);
        let global = policy.scope.contains(&ScopeSource::Global);
        check(global && policy.scope.len() > 1, Fault::GlobalBesideOthers);
        let max_len = policy.key_limits.max_len;
        check(!(1..=1024).contains(&max_len), Fault::BadKeyMaxLength(max_len));
        let (timeout, ttl) = (policy.upstream_timeout, self.core.ttl);
        check(
            timeout.is_zero() || timeout >= ttl,
            Fault::UpstreamTimeoutNotShorterThanTtl { timeout, ttl },
        );
        let body_timeout = policy.request_body_timeout;
        check(
            body_timeout.is_zero() || body_timeout > Duration::from_hours(1),
            Fault::BadRequestBodyTimeout,
        );
        let reads_claims = policy.mode != Mode::Off && policy.reads_tokens();
        let is_lax = reads_claims && policy.jwt_unverified == JwtUnverified::Warn;
        check(is_lax && policy.preset == Some(Preset::Payments), Fault::UnverifiedPayments);
        check(policy.scope_limits.executions_max == 0, Fault::NoExecutions);
        let limits = [
            ("max_request_body", policy.max_request_body),
            ("max_reply_body", policy.max_reply_body),
        ];
        for (name, bytes) in limits {
            check(bytes > BODY_MAX, Fault::BodyLimitTooLarge { name, bytes });
        }
        for pattern in &policy.unknown_statuses {
            let is_both = policy.release_statuses.contains(pattern);
            check(is_both, Fault::StatusReleasedAndUnknown(*pattern));
        }
        let mismatch = policy.mismatch_status;
        check(!mismatch.is_client_error(), Fault::BadMismatchStatus(mismatch.as_u16()));
        for (name, _) in &policy.replay_headers {
            check(!headers::may_mark_replays(name), Fault::BadReplayHeader(name.clone()));
        }
        faults
    }
}

/// One method per plain setting.
macro_rules! setters {
    ($($(#[$doc:meta])* $field:ident: $type:ty => $part:ident;)+) => {
        impl RoutePolicyBuilder {
            $($(#[$doc])*
            #[must_use]
            pub fn $field(mut self, $field: $type) -> Self {
                self.$part.$field = $field;
                self
            })+
        }
    };
}

setters! {
    /// Protect, only watch, or leave alone.
    mode: Mode => policy;
    /// Which requests need a key.
    key: KeyRule => policy;
    /// Where the key is looked for, in this order.
    key_from: Vec<PartSource> => policy;
    /// What makes up the client identity.
    scope: Vec<ScopeSource> => policy;
    /// What happens to requests without a client identity.
    on_missing_scope: OnMissingScope => policy;
    /// What becomes of claims in `scope`, if tokens are not verified.
    jwt_unverified: JwtUnverified => policy;
    /// How the upstream compares capitals and small letters in a path.
    path_case: PathComparison => policy;
    /// How the upstream compares `/a/` and `//a` with `/a`.
    path_slash: PathComparison => policy;
    /// What becomes of a path with `%2F` or `%5C`.
    path_encoded_slash: EncodedSlash => policy;
    /// Which headers are part of the fingerprint besides those that always are.
    fingerprint_headers: Vec<HeaderName> => policy;
    /// Which members of a JSON body are not part of it.
    fingerprint_ignore: Vec<Pointer> => policy;
    /// Statuses that hand the lease back.
    release_statuses: Vec<StatusPattern> => policy;
    /// Statuses that do not tell whether the work took effect. A single status wins over a class in
    /// `release_statuses`, and the other way round; the same in both is refused.
    unknown_statuses: Vec<StatusPattern> => policy;
    /// The status of a mismatch.
    mismatch_status: StatusCode => policy;
    /// What a replay carries besides the stored headers.
    replay_headers: Vec<(HeaderName, HeaderValue)> => policy;
    /// True if `Set-Cookie` headers are stored and replayed.
    replay_cookies: bool => policy;
    /// Where the id of what was made is found in a reply.
    result_from: Option<PartSource> => policy;
    /// The largest request body that is read.
    max_request_body: u64 => policy;
    /// How long a request body may take to arrive.
    request_body_timeout: Duration => policy;
    /// The largest reply body that is kept.
    max_reply_body: u64 => policy;
    /// How long the upstream may take.
    upstream_timeout: Duration => policy;
    /// How long a lease lasts without being renewed.
    lease: Duration => core;
    /// How long a record lives after its latest granted claim.
    ttl: Duration => core;
    /// How long a duplicate waits.
    wait_timeout: Duration => core;
    /// What happens to abandoned records.
    on_abandoned: OnAbandoned => core;
    /// What happens to unknown outcomes.
    on_unknown: OnUnknown => core;
    /// What happens when the store is unavailable.
    on_store_down: OnStoreDown => core;
}

// === impl CoreChoices ===

impl CoreChoices {
    fn build(self) -> Result<Policy, semel_core::PolicyError> {
        let in_flight = match self.in_flight {
            InFlight::Wait(_) => InFlight::Wait(self.wait_timeout),
            other => other,
        };
        Policy::builder()
            .lease(self.lease)
            .ttl(self.ttl)
            .in_flight(in_flight)
            .on_abandoned(self.on_abandoned)
            .on_unknown(self.on_unknown)
            .on_store_down(self.on_store_down)
            .build()
    }
}
