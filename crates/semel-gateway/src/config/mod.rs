//! The configuration of the gateway: a file, environment variables over it, flags over both.
//!
//! ```
//! use semel_gateway::config::{Config, Flags};
//!
//! let file = r#"
//! upstream = "http://127.0.0.1:3000"
//!
//! [[route]]
//! match = "POST /v1/charges"
//! preset = "payments"
//! leese = "10s"
//! "#;
//! let faults = Config::load(Some(("semel.toml", file)), [], &Flags::default()).unwrap_err();
//! assert_eq!(
//!     faults.to_string(),
//!     "\
//! semel.toml:7:1: `leese` is not a setting of [[route]]
//!     7 | leese = \"10s\"
//!       | ^^^^^
//!     cure: did you mean `lease`?"
//! );
//! ```
//!
//! The way of a value: `settings` has the table of all that can be set; `gather` finds what was
//! set (`syntax`, `raw`, `unknown`), `value` and `list` read it (`units`, `upstream`, `store`),
//! `values` lays it over what is more general and returns it as its type (`typed`), `policy` and
//! `check` see whether it goes together.
//! Whatever is wrong ends up in `fault`. `describe`, `schema` and `reference` tell of the same table.

mod changes;
mod check;
mod describe;
mod effective;
mod fault;
mod gather;
mod jwt;
mod list;
mod load;
mod nearest;
mod policy;
mod raw;
mod reference;
mod schema;
mod settings;
mod source;
mod store;
mod syntax;
mod typed;
mod units;
mod unknown;
mod upstream;
mod value;
mod values;

pub use fault::{Fault, Faults};
pub use jwt::{Jwt, KeysFrom, KeysUrl};
pub use reference::reference;
pub use schema::schema;
pub use settings::limits::Limits;
#[cfg(feature = "postgres")]
pub use store::PostgresAddress;
#[cfg(feature = "redis")]
pub use store::RedisAddress;
pub use store::StoreChoice;
pub use upstream::{Scheme, Upstream};

use std::fmt;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::thread;

use http::Method;
use semel_embedded::Durability;
use semel_http::Routes;

use crate::Forwarded;
use effective::Effective;
use source::Source;

/// A configuration in which everything goes together.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// The address that clients connect to.
    pub listen: SocketAddr,
    /// The address for operators, unless it is off.
    pub admin: Option<SocketAddr>,
    /// The API behind the gateway.
    pub upstream: Upstream,
    /// What becomes of a client's `Forwarded` headers.
    pub forwarded: Forwarded,
    /// Which methods are forwarded besides the registered ones.
    pub methods: Vec<Method>,
    /// Where records are kept.
    pub store: StoreChoice,
    /// What an acknowledged record survives.
    pub durability: Durability,
    /// Must the store keep whatever it was given? So it is where a route has the preset `payments`,
    /// unless it is set.
    pub require_durable: bool,
    /// How many replicas must have a record before it counts, on Redis; what the address says, unless it
    /// is set.
    pub wait_replicas: Option<u32>,
    /// Keeps applications apart that share a store.
    pub namespace: String,
    /// How much is logged.
    pub log: tracing::Level,
    /// How log lines look.
    pub log_format: LogFormat,
    /// How many threads serve connections; 0 means one per core.
    pub workers: usize,
    /// TLS towards clients.
    pub tls: Option<Tls>,
    /// TLS towards the upstream.
    pub upstream_tls: UpstreamTls,
    /// How tokens are verified, if they are.
    pub jwt: Option<Jwt>,
    /// How much of anything there may be.
    pub limits: Limits,
    /// The policy of each route, and of all other requests.
    pub routes: Routes,
    effective: Effective,
    description: String,
}

/// What was typed on the command line. Each flag wins over the setting of its name.
#[derive(Clone, Default)]
pub struct Flags {
    /// `--listen`
    pub listen: Option<String>,
    /// `--admin`
    pub admin: Option<String>,
    /// `--upstream`
    pub upstream: Option<String>,
    /// `--store`
    pub store: Option<String>,
}

/// How log lines look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

/// TLS towards clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the certificate chain.
    pub certificate: PathBuf,
    /// PEM file with its private key.
    pub key: PathBuf,
}

/// TLS towards the upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM file with certificates to trust besides those of the system.
    pub ca: Option<PathBuf>,
    /// The name that the upstream's certificate must have, if not the upstream's host.
    pub server_name: Option<String>,
}

// === impl Flags ===

/// Without secrets.
impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Flags")
            .field("listen", &self.listen)
            .field("admin", &self.admin)
            .field("upstream", &self.upstream.as_deref().map(source::masked))
            .field("store", &self.store.as_deref().map(store::redacted))
            .finish()
    }
}

// === impl Config ===

impl Config {
    /// Reads a configuration: `source` is the name and the text of the file, `env` all environment
    /// variables there are (others than `SEMEL_…` are left alone). Returns everything that is wrong
    /// with it at once.
    ///
    /// The file is checked whole, also what a variable or a flag wins over. No file is opened, no
    /// name looked up.
    pub fn load(
        source: Option<(&str, &str)>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Result<Self, Faults> {
        let source = source.map(|(name, text)| Source::new(name, text));
        load::load(source.as_ref(), env, flags)
    }

    /// Where records are kept, for who needs nothing else: an upstream may be missing.
    pub fn store(
        source: Option<(&str, &str)>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Result<StoreChoice, Faults> {
        let source = source.map(|(name, text)| Source::new(name, text));
        load::store(source.as_ref(), env, flags)
    }

    /// What is in effect and where it comes from, for people.
    pub fn describe(&self) -> String {
        self.description.clone()
    }

    /// How many threads serve connections.
    pub fn worker_count(&self) -> usize {
        match self.workers {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            workers => workers,
        }
    }

    /// A line for each setting that differs in `other`, for people.
    pub fn changes(&self, other: &Self) -> Vec<String> {
        changes::changes(&self.effective, &other.effective)
    }

    /// The settings that differ in `other` and take effect only at the next start.
    pub fn needs_restart(&self, other: &Self) -> Vec<&'static str> {
        settings::all()
            .filter(|row| row.restart)
            .filter(|row| self.effective.general.value(row) != other.effective.general.value(row))
            .map(|row| row.name)
            .collect()
    }
}

#[cfg(test)]
mod tests;
