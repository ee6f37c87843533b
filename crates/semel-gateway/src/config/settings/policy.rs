use std::num::NonZero;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use semel_core::{InFlight, KeyFormat, OnAbandoned, OnStoreDown, OnUnknown};
use semel_engine::Rate;
use semel_http::json::Pointer;
use semel_http::{
    EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PartSource, PathComparison, Preset,
    Profile, RoutePolicyBuilder, ScopeSource, StatusPattern,
};

use super::kind::{
    HEADER_LINES, HEADER_NAMES, KEY_SOURCES, PATTERN, POINTERS, RATE_OR_OFF, SCOPE_SOURCES, SOURCE,
    STATUSES, SWITCH, Typed, integer, size, time, word,
};
use super::{Row, Section, Setting};
use crate::config::values::Values;

const BODY: Typed<u64> = size("0B", "1GiB");

pub(in crate::config) const MATCH: Setting<Option<String>> = Setting::new(
    Section::Route,
    "match",
    &PATTERN,
    "Which requests: METHOD PATH, with {name} for one segment, {*rest} for all that follow, and * \
     for any method. It must be set.",
);

/// The settings. Each is applied by the builder's method of its name, in any order, unless it says how.
macro_rules! policy {
    ($(
        $(#[doc = $doc:literal])+
        $setting:ident: $type:ty = $name:ident($kind:expr)$(.or($default:literal))? $(=> $apply:ident)?;
    )+) => {
        settings! { SETTINGS in Policy;
            $($(#[doc = $doc])+
            $setting: $type =
                $name($kind)$(.or($default))?.applied(applied!($setting, $name $(, $apply)?));)+
        }
    };
}

macro_rules! applied {
    ($setting:ident, $name:ident) => {
        |builder, values| builder.$name(values.get(&$setting))
    };
    ($setting:ident, $name:ident, $apply:ident) => {
        $apply
    };
}

policy! {
    /// Protect requests, let all pass and only count what protection would have done, or leave them alone.
    MODE: Mode = mode(word()).or(r#""protect""#);
    /// Choices that follow a convention.
    PROFILE: Profile = profile(word()).or(r#""classic""#) => elsewhere;
    /// Choices that suit a use.
    PRESET: Option<Preset> = preset(word()) => elsewhere;
    /// Does a request need a key? By method: POST and PATCH do, GET, HEAD, OPTIONS and TRACE pass, others may bring
    /// one.
    KEY: KeyRule = key(word()).or(r#""by-method""#);
    /// Where the key is looked for, in this order: header:NAME or json:/pointer.
    KEY_FROM: Vec<PartSource> = key_from(KEY_SOURCES).or(r#"["header:idempotency-key"]"#);
    /// What a key must look like.
    KEY_FORMAT: KeyFormat = key_format(word()).or(r#""any""#);
    /// Characters of a key.
    KEY_MAX_LENGTH: usize = key_max_length(integer(1, 1024)).or("128");
    /// Who a key belongs to, all of it together: auto, header:NAME, cookie:NAME, jwt:CLAIM, client-ip, or global.
    /// Auto is the header Authorization, and refuses a request that has another credential instead.
    SCOPE: Vec<ScopeSource> = scope(SCOPE_SOURCES).or(r#"["auto"]"#);
    /// Clients without identity share one scope, or are refused with 401.
    ON_MISSING_SCOPE: OnMissingScope = on_missing_scope(word()).or(r#""anonymous""#);
    /// What becomes of a jwt:CLAIM in `scope` without a table [jwt]: it is read as it stands, with a warning; it is
    /// refused; or it is read because something in front has verified the token.
    JWT_UNVERIFIED: JwtUnverified = jwt_unverified(word()).or(r#""warn""#);
    /// Executions of one client on the route at once, in this gateway; one more is refused with 429. Clients without
    /// identity are not counted.
    MAX_EXECUTIONS_PER_SCOPE: u32 = max_executions_per_scope(integer(1, 10_000_000)).or("1000");
    /// Keys without a record that one client may send on the route, to this gateway; one more is refused with 429.
    /// Clients without identity are not counted.
    NEW_KEYS_PER_SCOPE: Option<Rate> = new_keys_per_scope(RATE_OR_OFF).or(r#""off""#);
    /// Records that one client may begin on the route in a `ttl`, on this gateway: at most twice as many live at
    /// once. One more is refused with 429. 0 is no limit. Clients without identity are not counted.
    MAX_RECORDS_PER_SCOPE: Option<NonZero<u64>> = max_records_per_scope(integer(0, 1_000_000_000)).or("0");
    /// Bytes of stored replies that one client may cause on the route in a `ttl`, on this gateway. Beyond that, new
    /// keys are refused with 429. 0B is no limit. Clients without identity are not counted.
    MAX_RECORD_BYTES_PER_SCOPE: Option<NonZero<u64>> = max_record_bytes_per_scope(size("0B", "65536GiB")).or(r#""0B""#);
    /// How long an execution is left alone before it counts as abandoned; renewed while it runs.
    LEASE: Duration = lease(time("10ms", "3650d")).or(r#""30s""#);
    /// How long a record lives after its latest granted claim. Later than that, a retry executes again.
    TTL: Duration = ttl(time("10ms", "3650d")).or(r#""24h""#);
    /// What a duplicate gets while the first attempt runs: 409, 202, or the answer after waiting.
    IN_FLIGHT: InFlight = in_flight(word()).or(r#""conflict""#) => in_flight;
    /// How long a duplicate waits, if `in_flight` is wait.
    WAIT_TIMEOUT: Duration = wait_timeout(time("1ms", "1h")).or(r#""10s""#) => elsewhere;
    /// What becomes of work whose lease ran out: the next attempt executes again, it counts as failed, or it is held
    /// until its holder settles or the record expires.
    ON_ABANDONED: OnAbandoned = on_abandoned(word()).or(r#""reexecute""#);
    /// What becomes of work whose outcome is unknown (connection lost, upstream too slow, a status in
    /// `unknown_statuses`): a retry executes again, or it is held.
    ON_UNKNOWN: OnUnknown = on_unknown(word()).or(r#""release""#);
    /// Without the store: refuse with 503, or execute without protection.
    ON_STORE_DOWN: OnStoreDown = on_store_down(word()).or(r#""closed""#);
    /// How the upstream compares capitals and small letters in a path. Express ignores the difference, unless it is
    /// asked not to.
    PATH_CASE: PathComparison = path_case(word()).or(r#""exact""#);
    /// How the upstream compares /a/ and //a with /a. Express ignores a slash at the end, unless it is asked not to.
    PATH_SLASH: PathComparison = path_slash(word()).or(r#""exact""#);
    /// What becomes of a path with %2F or %5C, which some servers take for a slash. Allow it if the upstream takes it
    /// for part of a name.
    PATH_ENCODED_SLASH: EncodedSlash = path_encoded_slash(word()).or(r#""refuse""#);
    /// Headers that must be equal when a key comes again, besides those that always must, such as Content-Type,
    /// If-Match and Prefer.
    FINGERPRINT_HEADERS: Vec<HeaderName> = fingerprint_headers(HEADER_NAMES).or("[]");
    /// Members of a JSON body that may differ, as JSON Pointers.
    FINGERPRINT_IGNORE: Vec<Pointer> = fingerprint_ignore(POINTERS).or("[]");
    /// Replies that are not kept, so that a retry executes again.
    RELEASE_STATUSES: Vec<StatusPattern> = release_statuses(STATUSES).or(r#"["408", "425", "429", "5xx"]"#);
    /// Replies that do not tell whether the work took effect: `on_unknown` decides. A single status wins over a class
    /// in `release_statuses`, and the other way round.
    UNKNOWN_STATUSES: Vec<StatusPattern> = unknown_statuses(STATUSES).or("[]");
    /// The status when a key comes again with another request.
    MISMATCH_STATUS: StatusCode = mismatch_status(integer(400, 499)).or("409");
    /// Headers that mark a replay, as "Name: value".
    REPLAY_HEADERS: Vec<(HeaderName, HeaderValue)> =
        replay_headers(HEADER_LINES).or(r#"["X-Idempotency-Replayed: true"]"#);
    /// Are Set-Cookie headers kept and replayed?
    REPLAY_COOKIES: bool = replay_cookies(SWITCH).or("false");
    /// Where a reply has the id of what was made, for operators: header:NAME or json:/pointer. Without it, the
    /// Location header.
    RESULT_FROM: Option<PartSource> = result_from(SOURCE);
    /// The largest body of a protected request.
    MAX_REQUEST_BODY: u64 = max_request_body(BODY).or(r#""1MiB""#);
    /// Time for the body of a protected request to arrive.
    REQUEST_BODY_TIMEOUT: Duration = request_body_timeout(time("1ms", "1h")).or(r#""30s""#);
    /// The largest reply body that is kept. Of larger ones only status and headers are.
    MAX_REPLY_BODY: u64 = max_reply_body(BODY).or(r#""16MiB""#);
    /// Time for the upstream to answer.
    UPSTREAM_TIMEOUT: Duration = upstream_timeout(time("1ms", "3650d")).or(r#""60s""#);
}

/// Profile and preset come before all others, and `wait_timeout` is a part of `in_flight`.
fn elsewhere(builder: RoutePolicyBuilder, _: &Values) -> RoutePolicyBuilder {
    builder
}

fn in_flight(builder: RoutePolicyBuilder, values: &Values) -> RoutePolicyBuilder {
    builder.in_flight(match values.get(&IN_FLIGHT) {
        InFlight::Wait(_) => InFlight::Wait(values.get(&WAIT_TIMEOUT)),
        other => other,
    })
}
