use std::fmt;
use std::time::Duration;

use crate::tls::TlsClient;
use crate::url::{Address, Endpoint, Place, UrlError};

/// The servers' addresses and the settings of the store.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) address: Address,
    pub(crate) pool_max: usize,
    pub(crate) wait_replicas: u32,
    pub(crate) require_durable: bool,
    pub(crate) verb_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    /// Made when the store is opened.
    pub(crate) tls: Option<TlsClient>,
}

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest timeout that can be set.
const VERB_TIMEOUT_MAX: Duration = Duration::from_hours(24);
/// A server runs commands on one thread, and each connection carries many verbs at once.
const POOL_MAX: usize = 4;

// === impl Options ===

impl Options {
    /// The servers at an address:
    ///
    /// - `redis://USER:PASSWORD@HOST:PORT/DATABASE`, and `rediss://` with TLS
    /// - `unix:///run/redis.sock`
    /// - `redis+sentinel://HOST1,HOST2/NAME`: the master of that name, as reported by the sentinels
    /// - `redis+cluster://HOST1,HOST2`: a cluster, by some of its servers
    ///
    /// Parameters: `prefix` (of all keys, default `semel:`), `pool_max` (connections to each server,
    /// default 4), `wait_replicas`, `db`; `sslrootcert`, `sslcert` and `sslkey`; `sentinel_user` and
    /// `sentinel_password`. Without a password the environment variable `REDISCLI_AUTH` is read.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let mut address = Address::parse(url)?;
        if address.login.password.is_none() {
            let given = std::env::var("REDISCLI_AUTH").ok();
            address.login.password = given.filter(|password| !password.is_empty());
        }
        if address.login.user.is_some() && address.login.password.is_none() {
            let what = "it has a user and no password";
            return Err(UrlError::Malformed { what, example: "redis://USER:PASSWORD@HOST:PORT" });
        }
        Ok(Self {
            pool_max: address.pool_max.unwrap_or(POOL_MAX),
            wait_replicas: address.wait_replicas.unwrap_or(0),
            require_durable: false,
            verb_timeout: Duration::from_secs(2),
            connect_timeout: CONNECT_TIMEOUT,
            tls: None,
            address,
        })
    }

    /// The maximum number of connections to each server; verbs share them.
    #[must_use]
    pub fn pool_max(mut self, connections: usize) -> Self {
        self.pool_max = connections.max(1);
        self
    }

    /// How many replicas must have a record before the store answers with it. Zero, the default, means
    /// none.
    ///
    /// This makes it less likely that a failover loses an acknowledged record. It does not make it
    /// impossible: a replica that has the record need not be the one that is promoted.
    #[must_use]
    pub fn wait_replicas(mut self, replicas: u32) -> Self {
        self.wait_replicas = replicas;
        self
    }

    /// Refuses to open if a server may lose records, according to its settings: see
    /// [`Finding::is_grave`](crate::Finding::is_grave). Without this the findings are only logged.
    #[must_use]
    pub fn require_durable(mut self, required: bool) -> Self {
        self.require_durable = required;
        self
    }

    /// The timeout of a verb.
    #[must_use]
    pub fn verb_timeout(mut self, limit: Duration) -> Self {
        self.verb_timeout = limit.clamp(Duration::from_millis(10), VERB_TIMEOUT_MAX);
        self.connect_timeout = CONNECT_TIMEOUT.min(self.verb_timeout);
        self
    }

    pub(crate) const fn is_cluster(&self) -> bool {
        matches!(self.address.place, Place::Cluster { .. })
    }

    pub(crate) const fn has_sentinels(&self) -> bool {
        matches!(self.address.place, Place::Sentinel { .. })
    }
}

/// The address, without secrets.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Address { place, login, database, tls, .. } = &self.address;
        let secure = if tls.is_some() { "s" } else { "" };
        let user = login.user.as_ref().map(|user| format!("{user}@")).unwrap_or_default();
        let list = |endpoints: &[Endpoint]| {
            endpoints.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
        };
        match place {
            Place::One(Endpoint::Unix(path)) => write!(f, "unix://{}", path.display())?,
            Place::One(endpoint) => write!(f, "redis{secure}://{user}{endpoint}")?,
            Place::Sentinel { sentinels, name } => {
                write!(f, "redis{secure}+sentinel://{user}{}/{name}", list(sentinels))?;
            }
            Place::Cluster { seeds } => {
                write!(f, "redis{secure}+cluster://{user}{}", list(seeds))?;
            }
        }
        match database {
            0 => Ok(()),
            database => write!(f, "?db={database}"),
        }
    }
}
