use super::{Item, Kind, Section, Setting};

const fn top(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::Top, name, kind, doc)
}

const fn tls(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::Tls, name, kind, doc)
}

const fn upstream_tls(name: &'static str, kind: Kind, doc: &'static str) -> Setting {
    Setting::new(Section::UpstreamTls, name, kind, doc)
}

pub(super) const SETTINGS: &[Setting] = &[
    top("listen", Kind::Address, "The address that clients connect to.")
        .or(r#""127.0.0.1:8080""#)
        .at_start(),
    top("admin", Kind::AddressOrOff, "The address of /health, /ready and /metrics, or off.")
        .or(r#""127.0.0.1:8081""#)
        .at_start(),
    top("upstream", Kind::Upstream, "The API behind the gateway. It must be set."),
    top(
        "forwarded",
        Kind::Word(&["replace", "append"]),
        "What becomes of a client's Forwarded and X-Forwarded-… headers: they are replaced, or \
         added to if a trusted proxy in front sets them.",
    )
    .or(r#""replace""#),
    top(
        "methods",
        Kind::List(Item::Method),
        "Methods that are forwarded besides the registered ones, in upper case. Requests of others are \
         refused.",
    )
    .or("[]"),
    top(
        "store",
        Kind::Store,
        "Where records are kept: embedded:DIR for one gateway, \
         postgres://USER:PASSWORD@HOST:PORT/DATABASE or redis://USER:PASSWORD@HOST:PORT for several \
         that share them, tiered:redis://…|postgres://… for replays from Redis and records in PostgreSQL, or \
         memory: for tests (lost when the process ends).",
    )
    .or(r#""embedded:./semel-data""#)
    .at_start(),
    top(
        "durability",
        Kind::Word(&["power", "process"]),
        "What an acknowledged record survives, embedded store only: a power cut, or only the death \
         of the process.",
    )
    .or(r#""power""#)
    .at_start(),
    top(
        "require_durable",
        Kind::Switch,
        "Is a store refused that may lose records: a Redis server that may evict or forget them, \
         memory, or durability process? On Redis it is on if a route has the preset payments.",
    )
    .at_start(),
    top(
        "wait_replicas",
        Kind::Integer { min: 0, max: 100 },
        "How many replicas must have a record before it counts, Redis only.",
    )
    .or("0")
    .at_start(),
    top(
        "namespace",
        Kind::Namespace,
        "Keeps applications apart that share a store. Records of another namespace are not found.",
    )
    .or(r#""http""#),
    top("log", Kind::Word(&["error", "warn", "info", "debug", "trace"]), "How much is logged.")
        .or(r#""info""#)
        .at_start(),
    top("log_format", Kind::Word(&["text", "json"]), "How log lines look.")
        .or(r#""text""#)
        .at_start(),
    top(
        "workers",
        Kind::Integer { min: 0, max: 256 },
        "How many threads serve connections; 0 means one per core.",
    )
    .or("0")
    .at_start(),
    tls(
        "certificate",
        Kind::Path,
        "PEM file with the certificate chain for clients. With `key` it turns TLS on.",
    ),
    tls("key", Kind::Path, "PEM file with the private key of the certificate."),
    upstream_tls(
        "ca",
        Kind::Path,
        "PEM file with certificates to trust besides those of the system.",
    ),
    upstream_tls(
        "server_name",
        Kind::Host,
        "The name that the upstream's certificate must have, if it is not the host of `upstream`.",
    ),
];
