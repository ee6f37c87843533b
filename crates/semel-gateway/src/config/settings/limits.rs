use super::{Kind, Section, Setting};

const fn limit(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::Limits, name, kind, doc)
}

const fn count(min: u64, max: u64) -> Kind {
    Kind::Integer { min, max }
}

/// Waiting for the other side.
const PATIENCE: Kind = Kind::Time { min: "10ms", max: "1h" };
/// Keeping a connection that nobody uses.
const IDLE: Kind = Kind::Time { min: "10ms", max: "24h" };

pub(super) const SETTINGS: &[Setting] = &[
    limit("max_connections", count(1, 1_000_000), "Client connections at once.")
        .or("10000")
        .at_start(),
    limit(
        "max_header_bytes",
        Kind::Size { min: "8KiB", max: "16MiB" },
        "Size of a request's head, all headers together.",
    )
    .or(r#""64KiB""#),
    limit("max_headers", count(10, 10_000), "Headers of a request.").or("100"),
    limit("header_timeout", PATIENCE, "Time for a request's head to arrive.").or(r#""10s""#),
    limit(
        "idle_timeout",
        IDLE,
        "How long a client connection is kept without a request, or a tunnel without a byte.",
    )
    .or(r#""75s""#),
    limit(
        "body_idle_timeout",
        PATIENCE,
        "Longest pause between two pieces of a body, in either direction.",
    )
    .or(r#""15s""#),
    // As many as may be streams at once: a client that resets none is never refused.
    limit(
        "max_executions_per_connection",
        count(1, 100_000),
        "Requests of one HTTP/2 connection in work at once, those whose stream was reset included; one more is \
         refused with 503.",
    )
    .or("256"),
    limit(
        "max_resets_per_connection",
        count(1, 1_000_000),
        "Requests in work that the client of an HTTP/2 connection may reset, of which each answer makes up for \
         one; beyond that the connection is closed.",
    )
    .or("100"),
    limit(
        "max_upstream_connections",
        count(1, 1_000_000),
        "Connections to the upstream at once, idle ones and tunnels included. A request waits for one as long as \
         connect_timeout says, and is then refused with 503.",
    )
    .or("8000")
    .at_start(),
    limit("connect_timeout", PATIENCE, "Time for a connection to the upstream, and for a place for it.")
        .or(r#""5s""#),
    // Shorter than most servers keep theirs: a request that meets a connection while the upstream
    // closes it is lost, and its outcome unknown.
    limit("pool_idle_timeout", IDLE, "How long an upstream connection is kept without a request.")
        .or(r#""4s""#),
    limit("pool_max_idle", count(0, 100_000), "Upstream connections kept without a request.")
        .or("512"),
    limit(
        "shutdown_timeout",
        Kind::Time { min: "0s", max: "24h" },
        "Time for requests that run when the gateway is told to stop.",
    )
    .or(r#""30s""#),
    limit(
        "max_executions",
        count(1, 10_000_000),
        "Protected requests at once; one more is refused with 503.",
    )
    .or("100000")
    .at_start(),
    limit(
        "max_waiters",
        count(0, 10_000_000),
        "Duplicates that wait for an outcome at once; one more is answered without waiting.",
    )
    .or("10000")
    .at_start(),
    limit(
        "max_buffered",
        Kind::Size { min: "1MiB", max: "1024GiB" },
        "Memory for the bodies of protected requests and their replies, all together.",
    )
    .or(r#""256MiB""#),
    limit(
        "cache_bytes",
        Kind::Size { min: "0B", max: "1024GiB" },
        "Memory for settled records, so that replays need not ask the store; 0 turns it off.",
    )
    .or(r#""64MiB""#)
    .at_start(),
];
