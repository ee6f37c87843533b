use std::net::SocketAddr;

use http::Method;
use semel_embedded::Durability;
use tracing::Level;

use super::kind::{
    ADDRESS, ADDRESS_OR_OFF, METHOD_LIST, NAME, STORE_URL, SWITCH, UPSTREAM_URL, integer, word,
};
use super::{Row, Section, Setting};
use crate::Forwarded;
use crate::config::{LogFormat, StoreChoice, Upstream};

settings! { SETTINGS in Top;
    /// The address that clients connect to.
    LISTEN: SocketAddr = listen(ADDRESS).or(r#""127.0.0.1:8080""#).at_start();
    /// The address of /health, /ready and /metrics, or off.
    ADMIN: Option<SocketAddr> = admin(ADDRESS_OR_OFF).or(r#""127.0.0.1:8081""#).at_start();
    /// The API behind the gateway. It must be set.
    UPSTREAM: Option<Upstream> = upstream(UPSTREAM_URL);
    /// What becomes of a client's Forwarded and X-Forwarded-… headers: they are replaced, or added to if a trusted
    /// proxy in front sets them.
    FORWARDED: Forwarded = forwarded(word()).or(r#""replace""#);
    /// Methods that are forwarded besides the registered ones, in upper case. Requests of others are refused.
    METHODS: Vec<Method> = methods(METHOD_LIST).or("[]");
    /// Where records are kept: embedded:DIR for one gateway, postgres://USER:PASSWORD@HOST:PORT/DATABASE or
    /// redis://USER:PASSWORD@HOST:PORT for several that share them, tiered:redis://…|postgres://… for replays from
    /// Redis and records in PostgreSQL, or memory: for tests (lost when the process ends).
    STORE: StoreChoice = store(STORE_URL).or(r#""embedded:./semel-data""#).at_start();
    /// What an acknowledged record survives, embedded store only: a power cut, or only the death of the process.
    DURABILITY: Durability = durability(word()).or(r#""power""#).at_start();
    /// Is a store refused that may lose records: a Redis server that may evict or forget them, memory, or durability
    /// process? On Redis it is on if a route has the preset payments.
    REQUIRE_DURABLE: Option<bool> = require_durable(SWITCH).at_start();
    /// How many replicas must have a record before it counts, Redis only.
    WAIT_REPLICAS: u32 = wait_replicas(integer(0, 100)).or("0").at_start();
    /// Keeps applications apart that share a store. Records of another namespace are not found.
    NAMESPACE: String = namespace(NAME).or(r#""http""#);
    /// How much is logged.
    LOG: Level = log(word()).or(r#""info""#).at_start();
    /// How log lines look.
    LOG_FORMAT: LogFormat = log_format(word()).or(r#""text""#).at_start();
    /// How many threads serve connections; 0 means one per core.
    WORKERS: usize = workers(integer(0, 256)).or("0").at_start();
}
