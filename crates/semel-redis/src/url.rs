//! Addresses: of one server, of sentinels, or of a cluster.

use std::fmt;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;

/// A parsed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) place: Place,
    pub(crate) login: Login,
    /// For the sentinels, if theirs differs.
    pub(crate) sentinel_login: Login,
    pub(crate) database: i64,
    pub(crate) tls: Option<TlsChoice>,
    pub(crate) prefix: Prefix,
    pub(crate) pool_max: Option<usize>,
    pub(crate) wait_replicas: Option<u32>,
}

/// Where the records are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On one server.
    One(Endpoint),
    /// On the master of this name, as reported by these sentinels.
    Sentinel { sentinels: Vec<Endpoint>, name: String },
    /// On a cluster that includes these servers.
    Cluster { seeds: Vec<Endpoint> },
}

/// The address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Endpoint {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// The user and password.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
}

/// The trusted authorities, and our own certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsChoice {
    /// The authority that must have signed it; the system's authorities if none is given.
    pub(crate) root: Option<PathBuf>,
    /// Our own certificate and key, if the server requires one.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// The prefix of all keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Prefix(String);

/// Why an address cannot be used. None shows the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is not one of Redis.
    #[error(
        "the address must begin with redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://"
    )]
    Scheme,
    /// A parameter has an invalid value.
    #[error("{name} = {value:?} is not possible; {cure}")]
    Parameter {
        /// The parameter.
        name: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        cure: &'static str,
    },
    /// The parameter is unknown.
    #[error(
        "there is no parameter {name:?}; known are prefix, pool_max, wait_replicas, db, sslrootcert, sslcert, \
         sslkey, sentinel_user and sentinel_password"
    )]
    Unknown {
        /// Its name.
        name: String,
    },
    /// Another part of the address is wrong.
    #[error("{what}; an address looks like {example}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// A valid address.
        example: &'static str,
    },
}

/// More connections to one server make no sense from one process.
const POOL_MAX: usize = 1_000;
const PREFIX_MAX: usize = 64;
/// More replicas than any deployment has.
const REPLICAS_MAX: u32 = 100;
const PORT: u16 = 6379;
const SENTINEL_PORT: u16 = 26379;

const NO_DATABASES: &str = "a cluster has no databases but 0";

const ONE: &str = "redis://USER:PASSWORD@HOST:PORT/DATABASE";
const UNIX: &str = "unix:///run/redis.sock";
const SENTINEL: &str = "redis+sentinel://USER:PASSWORD@HOST1:PORT,HOST2:PORT/NAME";
const CLUSTER: &str = "redis+cluster://USER:PASSWORD@HOST1:PORT,HOST2:PORT";

// === impl Address ===

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        let (scheme, rest) = url.split_once("://").ok_or(UrlError::Scheme)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        // The text before it is part of a password, and must not be shown.
        if query.contains('@') || rest.split_once('/').is_some_and(|(_, path)| path.contains('@')) {
            let what = "it has an @ behind its host; in a password write %2F for /, %3F for ? and %40 for @";
            return Err(UrlError::Malformed { what, example: ONE });
        }
        let parameters = Parameters::parse(query)?;
        let (login, rest) = login(rest)?;
        let (place, database) = match scheme {
            "redis" | "rediss" => one(rest)?,
            "unix" | "redis+unix" => (Place::One(unix(rest)?), None),
            "redis+sentinel" | "rediss+sentinel" => sentinel(rest)?,
            "redis+cluster" | "rediss+cluster" => cluster(rest)?,
            _ => return Err(UrlError::Scheme),
        };
        let identity = match (parameters.certificate, parameters.key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let what = "sslcert and sslkey are only of use together";
                return Err(UrlError::Malformed { what, example: ONE });
            }
        };
        let tls = TlsChoice { root: parameters.root, identity };
        let is_secret = scheme.starts_with("rediss");
        if !is_secret && tls != TlsChoice::default() {
            let what = "sslrootcert, sslcert and sslkey are for rediss:// addresses";
            return Err(UrlError::Malformed { what, example: "rediss://HOST:PORT" });
        }
        if matches!(place, Place::Cluster { .. }) && parameters.database.is_some_and(|db| db != 0) {
            return Err(UrlError::Malformed { what: NO_DATABASES, example: CLUSTER });
        }
        Ok(Self {
            place,
            login,
            sentinel_login: parameters.sentinel_login,
            database: parameters.database.or(database).unwrap_or(0),
            tls: is_secret.then_some(tls),
            prefix: parameters.prefix.unwrap_or_default(),
            pool_max: parameters.pool_max,
            wait_replicas: parameters.wait_replicas,
        })
    }
}

/// `USER:PASSWORD@`, and the rest.
fn login(rest: &str) -> Result<(Login, &str), UrlError> {
    let authority = &rest[..rest.find('/').unwrap_or(rest.len())];
    let Some((login, _)) = authority.rsplit_once('@') else {
        return Ok((Login::default(), rest));
    };
    // The text after the first of two would be taken for the host, and shown.
    if login.contains('@') {
        let what = "it has two @; in a password write %40 for one";
        return Err(UrlError::Malformed { what, example: ONE });
    }
    let (user, password) = login.split_once(':').unwrap_or((login, ""));
    let behind = &rest[login.len() + 1..];
    Ok((Login { user: decoded(user), password: decoded(password) }, behind))
}

fn decoded(text: &str) -> Option<String> {
    let text = percent_decode_str(text).decode_utf8_lossy().into_owned();
    (!text.is_empty()).then_some(text)
}

fn one(rest: &str) -> Result<(Place, Option<i64>), UrlError> {
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let endpoint = Endpoint::parse(host, PORT, ONE)?;
    Ok((Place::One(endpoint), database(path)?))
}

fn unix(rest: &str) -> Result<Endpoint, UrlError> {
    if !rest.starts_with('/') {
        return Err(UrlError::Malformed { what: "it names no file", example: UNIX });
    }
    Ok(Endpoint::Unix(percent_decode_str(rest).decode_utf8_lossy().into_owned().into()))
}

fn sentinel(rest: &str) -> Result<(Place, Option<i64>), UrlError> {
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, path) = path.split_once('/').unwrap_or((path, ""));
    let Some(name) = decoded(name) else {
        let what = "it does not say which master, by the name that the sentinels have for it";
        return Err(UrlError::Malformed { what, example: SENTINEL });
    };
    let sentinels = endpoints(hosts, SENTINEL_PORT, SENTINEL)?;
    Ok((Place::Sentinel { sentinels, name }, database(path)?))
}

fn cluster(rest: &str) -> Result<(Place, Option<i64>), UrlError> {
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(database(path)?, None | Some(0)) {
        return Err(UrlError::Malformed { what: NO_DATABASES, example: CLUSTER });
    }
    Ok((Place::Cluster { seeds: endpoints(hosts, PORT, CLUSTER)? }, None))
}

fn endpoints(hosts: &str, port: u16, example: &'static str) -> Result<Vec<Endpoint>, UrlError> {
    hosts.split(',').map(|host| Endpoint::parse(host, port, example)).collect()
}

fn database(text: &str) -> Result<Option<i64>, UrlError> {
    if text.is_empty() {
        return Ok(None);
    }
    match text.parse() {
        Ok(number @ 0..) => Ok(Some(number)),
        _ => Err(UrlError::Parameter {
            name: "db",
            value: text.to_owned(),
            cure: "databases are numbered, from 0",
        }),
    }
}

// === impl Endpoint ===

impl Endpoint {
    /// `HOST:PORT`, where an IPv6 address is in brackets.
    fn parse(text: &str, port: u16, example: &'static str) -> Result<Self, UrlError> {
        let malformed = |what| UrlError::Malformed { what, example };
        let (host, number) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) =
                    rest.split_once(']').ok_or(malformed("a [ of its host is not closed"))?;
                match rest.strip_prefix(':') {
                    None if !rest.is_empty() => {
                        return Err(malformed("something follows the ] of its host"));
                    }
                    number => (host, number),
                }
            }
            None => match text.split_once(':') {
                Some((host, number)) => (host, Some(number)),
                None => (text, None),
            },
        };
        if host.is_empty() {
            return Err(malformed("it names no host"));
        }
        let port = match number {
            Some(number) => number.parse().map_err(|_| malformed("its port is not a number"))?,
            None => port,
        };
        Ok(Self::Tcp { host: host.to_owned(), port })
    }

    /// An endpoint as a server names it: `HOST:PORT`, without brackets, and without a host if it is its
    /// own.
    pub(crate) fn named_by(&self, text: &str) -> Option<Self> {
        let (host, port) = text.rsplit_once(':')?;
        let port = port.split('@').next()?.parse().ok()?;
        self.at(host, port)
    }

    /// The server at `host`; an empty host means this server's own.
    pub(crate) fn at(&self, host: &str, port: u16) -> Option<Self> {
        let host = match (host, self) {
            ("" | "?", Self::Tcp { host, .. }) => host,
            ("" | "?", Self::Unix(_)) => return None,
            (host, _) => host,
        };
        Some(Self::Tcp { host: host.to_owned(), port })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => path.display().fmt(f),
        }
    }
}

// === impl Login ===

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("user", &self.user).finish_non_exhaustive()
    }
}

// === impl Prefix ===

impl Prefix {
    fn parse(value: String) -> Result<Self, UrlError> {
        let is_fit = |c: u8| c.is_ascii_graphic() && !b"{}*?[]\\".contains(&c);
        if value.len() <= PREFIX_MAX && value.bytes().all(is_fit) {
            return Ok(Self(value));
        }
        Err(UrlError::Parameter {
            name: "prefix",
            value,
            // Braces would put all records into one hash slot.
            cure: "up to 64 letters, digits and signs, but none of {}*?[]\\",
        })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// A prefix below this one.
    pub(crate) fn followed_by(&self, more: &str) -> Self {
        Self(format!("{}{more}", self.0))
    }
}

impl Default for Prefix {
    fn default() -> Self {
        Self("semel:".to_owned())
    }
}

/// The query of an address.
#[derive(Default)]
struct Parameters {
    prefix: Option<Prefix>,
    pool_max: Option<usize>,
    wait_replicas: Option<u32>,
    database: Option<i64>,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    sentinel_login: Login,
}

// === impl Parameters ===

impl Parameters {
    fn parse(query: &str) -> Result<Self, UrlError> {
        let mut parameters = Self::default();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let [name, value] =
                [name, value].map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
            parameters.take(&name, value)?;
        }
        Ok(parameters)
    }

    fn take(&mut self, name: &str, value: String) -> Result<(), UrlError> {
        match name {
            "prefix" => self.prefix = Some(Prefix::parse(value)?),
            "pool_max" => self.pool_max = Some(pool_max(value)?),
            "wait_replicas" => self.wait_replicas = Some(wait_replicas(value)?),
            "db" => self.database = database(&value)?,
            "sslrootcert" => self.root = Some(value.into()),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            "sentinel_user" => self.sentinel_login.user = Some(value),
            "sentinel_password" => self.sentinel_login.password = Some(value),
            _ => return Err(UrlError::Unknown { name: name.to_owned() }),
        }
        Ok(())
    }
}

fn pool_max(value: String) -> Result<usize, UrlError> {
    match value.parse() {
        Ok(number @ 1..=POOL_MAX) => Ok(number),
        _ => Err(UrlError::Parameter { name: "pool_max", value, cure: "a number from 1 to 1000" }),
    }
}

fn wait_replicas(value: String) -> Result<u32, UrlError> {
    match value.parse() {
        Ok(number @ 0..=REPLICAS_MAX) => Ok(number),
        _ => Err(UrlError::Parameter {
            name: "wait_replicas",
            value,
            cure: "a number from 0 to 100",
        }),
    }
}

#[cfg(test)]
mod tests;
