use semel_http::{
    EncodedSlash, JwtUnverified, KeyRule, Mode, OnMissingScope, PathComparison, Preset, Profile,
};

use super::{Item, Kind, Section, Setting};

const fn policy(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::Policy, name, kind, doc)
}

const BODY: Kind = Kind::Size { min: "0B", max: "1GiB" };

pub(super) const MATCH: Setting = Setting::new(
    Section::Route,
    "match",
    Kind::Match,
    "Which requests: METHOD PATH, with {name} for one segment, {*rest} for all that follow, and * \
     for any method. It must be set.",
);

pub(super) const SETTINGS: &[Setting] = &[
    policy(
        "mode",
        Kind::Word(Mode::WORDS),
        "Protect requests, let all pass and only count what protection would have done, or leave \
         them alone.",
    )
    .or(r#""protect""#),
    policy("profile", Kind::Word(Profile::WORDS), "Choices that follow a convention.")
        .or(r#""classic""#),
    policy("preset", Kind::Word(Preset::WORDS), "Choices that suit a use."),
    policy(
        "key",
        Kind::Word(KeyRule::WORDS),
        "Does a request need a key? By method: POST and PATCH do, GET, HEAD, OPTIONS and TRACE \
         pass, others may bring one.",
    )
    .or(r#""by-method""#),
    policy(
        "key_from",
        Kind::List(Item::KeySource),
        "Where the key is looked for, in this order: header:NAME or json:/pointer.",
    )
    .or(r#"["header:idempotency-key"]"#),
    policy("key_format", Kind::Word(&["any", "uuid"]), "What a key must look like.")
        .or(r#""any""#),
    policy("key_max_length", Kind::Integer { min: 1, max: 1024 }, "Characters of a key.")
        .or("128"),
    policy(
        "scope",
        Kind::List(Item::ScopeSource),
        "Who a key belongs to, all of it together: auto, header:NAME, cookie:NAME, jwt:CLAIM, client-ip, \
         or global. Auto is the header Authorization, and refuses a request that has another credential \
         instead.",
    )
    .or(r#"["auto"]"#),
    policy(
        "on_missing_scope",
        Kind::Word(OnMissingScope::WORDS),
        "Clients without identity share one scope, or are refused with 401.",
    )
    .or(r#""anonymous""#),
    policy(
        "jwt_unverified",
        Kind::Word(JwtUnverified::WORDS),
        "What becomes of a jwt:CLAIM in `scope` without a table [jwt]: it is read as it stands, with a \
         warning; it is refused; or it is read because something in front has verified the token.",
    )
    .or(r#""warn""#),
    policy(
        "max_executions_per_scope",
        Kind::Integer { min: 1, max: 10_000_000 },
        "Executions of one client on the route at once, in this gateway; one more is refused with 429. Clients \
         without identity are not counted.",
    )
    .or("1000"),
    policy(
        "new_keys_per_scope",
        Kind::RateOrOff,
        "Keys without a record that one client may send on the route, to this gateway; one more is refused with \
         429. Clients without identity are not counted.",
    )
    .or(r#""off""#),
    policy(
        "max_records_per_scope",
        Kind::Integer { min: 0, max: 1_000_000_000 },
        "Records that one client may begin on the route in a `ttl`, on this gateway: at most twice as many live at \
         once. One more is refused with 429. 0 is no limit. Clients without identity are not counted.",
    )
    .or("0"),
    policy(
        "max_record_bytes_per_scope",
        Kind::Size { min: "0B", max: "65536GiB" },
        "Bytes of stored replies that one client may cause on the route in a `ttl`, on this gateway. Beyond that, \
         new keys are refused with 429. 0B is no limit. Clients without identity are not counted.",
    )
    .or(r#""0B""#),
    policy(
        "lease",
        Kind::Time { min: "10ms", max: "3650d" },
        "How long an execution is left alone before it counts as abandoned; renewed while it runs.",
    )
    .or(r#""30s""#),
    policy(
        "ttl",
        Kind::Time { min: "10ms", max: "3650d" },
        "How long a record lives after its latest granted claim. Later than that, a retry executes again.",
    )
    .or(r#""24h""#),
    policy(
        "in_flight",
        Kind::Word(&["conflict", "accepted", "wait"]),
        "What a duplicate gets while the first attempt runs: 409, 202, or the answer after waiting.",
    )
    .or(r#""conflict""#),
    policy(
        "wait_timeout",
        Kind::Time { min: "1ms", max: "1h" },
        "How long a duplicate waits, if `in_flight` is wait.",
    )
    .or(r#""10s""#),
    policy(
        "on_abandoned",
        Kind::Word(&["reexecute", "fail", "hold"]),
        "What becomes of work whose lease ran out: the next attempt executes again, it counts as \
         failed, or it is held until its holder settles or the record expires.",
    )
    .or(r#""reexecute""#),
    policy(
        "on_unknown",
        Kind::Word(&["release", "hold"]),
        "What becomes of work whose outcome is unknown (connection lost, upstream too slow, a status \
         in `unknown_statuses`): a retry executes again, or it is held.",
    )
    .or(r#""release""#),
    policy(
        "on_store_down",
        Kind::Word(&["closed", "open"]),
        "Without the store: refuse with 503, or execute without protection.",
    )
    .or(r#""closed""#),
    policy(
        "path_case",
        Kind::Word(PathComparison::WORDS),
        "How the upstream compares capitals and small letters in a path. Express ignores the difference, \
         unless it is asked not to.",
    )
    .or(r#""exact""#),
    policy(
        "path_slash",
        Kind::Word(PathComparison::WORDS),
        "How the upstream compares /a/ and //a with /a. Express ignores a slash at the end, unless it is \
         asked not to.",
    )
    .or(r#""exact""#),
    policy(
        "path_encoded_slash",
        Kind::Word(EncodedSlash::WORDS),
        "What becomes of a path with %2F or %5C, which some servers take for a slash. Allow it if the \
         upstream takes it for part of a name.",
    )
    .or(r#""refuse""#),
    policy(
        "fingerprint_headers",
        Kind::List(Item::HeaderName),
        "Headers that must be equal when a key comes again, besides those that always must, such as \
         Content-Type, If-Match and Prefer.",
    )
    .or("[]"),
    policy(
        "fingerprint_ignore",
        Kind::List(Item::Pointer),
        "Members of a JSON body that may differ, as JSON Pointers.",
    )
    .or("[]"),
    policy(
        "release_statuses",
        Kind::List(Item::Status),
        "Replies that are not kept, so that a retry executes again.",
    )
    .or(r#"["408", "425", "429", "5xx"]"#),
    policy(
        "unknown_statuses",
        Kind::List(Item::Status),
        "Replies that do not tell whether the work took effect: `on_unknown` decides. A single status \
         wins over a class in `release_statuses`, and the other way round.",
    )
    .or("[]"),
    policy(
        "mismatch_status",
        Kind::Integer { min: 400, max: 499 },
        "The status when a key comes again with another request.",
    )
    .or("409"),
    policy(
        "replay_headers",
        Kind::List(Item::HeaderLine),
        "Headers that mark a replay, as \"Name: value\".",
    )
    .or(r#"["X-Idempotency-Replayed: true"]"#),
    policy("replay_cookies", Kind::Switch, "Are Set-Cookie headers kept and replayed?")
        .or("false"),
    policy(
        "result_from",
        Kind::Source,
        "Where a reply has the id of what was made, for operators: header:NAME or json:/pointer. \
         Without it, the Location header.",
    ),
    policy("max_request_body", BODY, "The largest body of a protected request.").or(r#""1MiB""#),
    policy(
        "request_body_timeout",
        Kind::Time { min: "1ms", max: "1h" },
        "Time for the body of a protected request to arrive.",
    )
    .or(r#""30s""#),
    policy(
        "max_reply_body",
        BODY,
        "The largest reply body that is kept. Of larger ones only status and headers are.",
    )
    .or(r#""16MiB""#),
    policy(
        "upstream_timeout",
        Kind::Time { min: "1ms", max: "3650d" },
        "Time for the upstream to answer.",
    )
    .or(r#""60s""#),
];
