use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::Host;

use crate::schema_name::SchemaName;
use crate::url::{Address, TlsChoice, UrlError};

/// The servers' addresses and the settings of the store.
#[derive(Clone)]
pub struct Options {
    /// All servers of the address.
    pub(crate) config: Config,
    pub(crate) servers: Vec<Config>,
    /// The index of the server that was connected to last.
    pub(crate) server: Arc<AtomicUsize>,
    pub(crate) tls: TlsChoice,
    pub(crate) schema: SchemaName,
    pub(crate) pool_max: usize,
    pub(crate) verb_timeout: Duration,
    pub(crate) sweep_every: Option<Duration>,
}

/// The timeout of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// The maximum time for which sent data may stay unacknowledged: then the server's machine is gone.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest timeout that can be set.
const VERB_TIMEOUT_MAX: Duration = Duration::from_hours(24);
/// Enough for the server to make several commits durable together, and few enough for a fleet.
const POOL_MAX: usize = 16;

// === impl Options ===

impl Options {
    /// The server at an address such as `postgres://USER:PASSWORD@HOST:PORT/DATABASE`.
    ///
    /// Besides libpq's usual parameters (`sslmode`, `sslrootcert`, `sslcert`, `sslkey`,
    /// `connect_timeout`, `application_name`, `target_session_attrs`, several hosts) it knows
    /// `schema` (default `semel`) and `pool_max` (default 16). Without a password the environment
    /// variable `PGPASSWORD` is read.
    pub fn from_url(url: &str) -> Result<Self, UrlError> {
        let Address { mut config, mut servers, tls, schema, pool_max } = Address::parse(url)?;
        for config in servers.iter_mut().chain([&mut config]) {
            complete(config);
        }
        Ok(Self {
            config,
            servers,
            server: Arc::default(),
            tls,
            schema,
            pool_max: pool_max.unwrap_or(POOL_MAX),
            verb_timeout: Duration::from_secs(5),
            sweep_every: Some(Duration::from_secs(30)),
        })
    }

    /// The maximum number of connections; further verbs share them.
    #[must_use]
    pub fn pool_max(mut self, connections: usize) -> Self {
        self.pool_max = connections.max(1);
        self
    }

    /// The timeout of a verb. The server's limit is a little shorter, so that it can report reliably that
    /// nothing happened.
    #[must_use]
    pub fn verb_timeout(mut self, limit: Duration) -> Self {
        self.verb_timeout = limit.clamp(Duration::from_millis(10), VERB_TIMEOUT_MAX);
        self
    }

    /// The pause between two sweeps in the background; `None` leaves sweeping to the caller.
    #[must_use]
    pub fn sweep_every(mut self, rest: Option<Duration>) -> Self {
        self.sweep_every = rest;
        self
    }

    /// Each server, as written in an address.
    fn hosts(&self) -> Vec<String> {
        let (hosts, ports) = (self.config.get_hosts(), self.config.get_ports());
        let port = |number| ports.get(number).or(ports.first()).copied().unwrap_or(5432);
        let named = hosts.iter().enumerate().map(|(number, host)| match host {
            Host::Tcp(name) => format!("{name}:{}", port(number)),
            Host::Unix(path) => path.display().to_string(),
        });
        // A server without a name is shown by its address.
        let numbers = self.config.get_hostaddrs().iter().enumerate().skip(hosts.len());
        named.chain(numbers.map(|(number, host)| format!("{host}:{}", port(number)))).collect()
    }

    pub(crate) fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or_default()
    }

    /// The schema that the store lies in.
    pub fn schema(&self) -> &str {
        self.schema.as_str()
    }
}

/// Adds what an address does not say.
fn complete(config: &mut Config) {
    if config.get_password().is_none()
        && let Some(password) = std::env::var_os("PGPASSWORD")
    {
        config.password(password.into_encoded_bytes());
    }
    if config.get_application_name().is_none() {
        config.application_name("semel");
    }
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_TIMEOUT);
    }
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(TCP_TIMEOUT);
    }
}

/// The address without its secrets.
impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "postgres://{}@", self.config.get_user().unwrap_or_default())?;
        for (number, host) in self.hosts().into_iter().enumerate() {
            let comma = if number == 0 { "" } else { "," };
            write!(f, "{comma}{host}")?;
        }
        write!(f, "/{}?schema={}", self.database(), self.schema)
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("address", &self.to_string())
            .field("pool_max", &self.pool_max)
            .field("verb_timeout", &self.verb_timeout)
            .field("sweep_every", &self.sweep_every)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_shows_the_password() {
        let url = "postgres://shop:hunter2@a:1,b:2/orders?schema=idem";
        let options = Options::from_url(url).unwrap();
        assert_eq!(options.to_string(), "postgres://shop@a:1,b:2/orders?schema=idem");
        assert!(!format!("{options:?}").contains("hunter2"), "{options:?}");
    }

    #[test]
    fn a_server_without_a_name_is_shown_by_its_number() {
        let options =
            Options::from_url("postgres:///d?user=u&hostaddr=10.0.0.1&port=6432").unwrap();
        assert_eq!(options.to_string(), "postgres://u@10.0.0.1:6432/d?schema=semel");
        let both = Options::from_url("postgres://u@db/d?hostaddr=10.0.0.1").unwrap();
        assert_eq!(both.to_string(), "postgres://u@db:5432/d?schema=semel");
    }

    #[test]
    fn every_wait_has_a_limit() {
        let options = Options::from_url("postgres://u@h/d").unwrap();
        assert!(options.config.get_connect_timeout().is_some());
        assert!(options.config.get_tcp_user_timeout().is_some());
        let asked = Options::from_url("postgres://u@h/d?connect_timeout=1").unwrap();
        assert_eq!(asked.config.get_connect_timeout(), Some(&Duration::from_secs(1)));
    }
}
