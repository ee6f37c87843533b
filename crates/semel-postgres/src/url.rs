//! `postgres://` addresses: libpq's parameters, and two of our own.

use std::path::PathBuf;
use std::str::FromStr as _;

use percent_encoding::percent_decode_str;
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use crate::schema_name::SchemaName;

/// A parsed address.
pub(crate) struct Address {
    /// All servers.
    pub(crate) config: Config,
    /// Each server by itself, in the order of the address.
    pub(crate) servers: Vec<Config>,
    pub(crate) tls: TlsChoice,
    pub(crate) schema: SchemaName,
    pub(crate) pool_max: Option<usize>,
}

/// The verification of the server's certificate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsChoice {
    /// Whether the server's certificate and its name are verified.
    pub(crate) verified: bool,
    /// The authority that must have signed it; the system's authorities if none is given.
    pub(crate) root: Option<PathBuf>,
    /// Our own certificate and key, if the server requires one.
    pub(crate) identity: Option<(PathBuf, PathBuf)>,
}

/// Why an address cannot be used. None shows the password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UrlError {
    /// The scheme is not one of PostgreSQL.
    #[error("the address must begin with postgres:// or postgresql://")]
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
    /// Another part of the address is wrong.
    #[error("{what}; an address looks like postgres://USER:PASSWORD@HOST:PORT/DATABASE")]
    Malformed {
        /// What is wrong.
        what: String,
    },
}

/// The highest number of connections that makes sense from one process.
const POOL_MAX: usize = 1_000;

// === impl Address ===

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, UrlError> {
        if !["postgres://", "postgresql://"].iter().any(|scheme| url.starts_with(scheme)) {
            return Err(UrlError::Scheme);
        }
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let mut parameters = Parameters::default();
        let mut rest = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            if !parameters.take(pair)? {
                rest.push(pair);
            }
        }
        let base =
            if rest.is_empty() { base.to_owned() } else { format!("{base}?{}", rest.join("&")) };
        let mut config = Config::from_str(&base).map_err(|error| malformed(&error))?;
        if config.get_user().is_none() {
            return Err(UrlError::Malformed { what: "it names no user".to_owned() });
        }
        if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
            return Err(UrlError::Malformed { what: "it names no host".to_owned() });
        }
        // The text after the first of two is taken for the host, and would be shown.
        let is_torn = |host: &Host| matches!(host, Host::Tcp(name) if name.contains('@'));
        if config.get_hosts().iter().any(is_torn) {
            let what = "it has two @; in a password write %40 for one".to_owned();
            return Err(UrlError::Malformed { what });
        }
        let mut servers = Vec::new();
        for one in one_by_one(&base) {
            servers.push(Config::from_str(&one).map_err(|error| malformed(&error))?);
        }
        // Of several servers the writable one.
        let several = config.get_hosts().len().max(config.get_hostaddrs().len()) > 1;
        let wanted = several && !query.contains("target_session_attrs");
        let Parameters { ssl_mode, root, certificate, key, schema, pool_max } = parameters;
        let verified = match ssl_mode {
            Some(SslChoice::Verified) => true,
            // As in libpq: a given authority implies verification.
            Some(SslChoice::Require) => root.is_some(),
            Some(SslChoice::Disable | SslChoice::Prefer) | None => false,
        };
        let ssl_mode = match ssl_mode.unwrap_or(SslChoice::Prefer) {
            SslChoice::Disable => SslMode::Disable,
            SslChoice::Prefer => SslMode::Prefer,
            SslChoice::Require | SslChoice::Verified => SslMode::Require,
        };
        for config in servers.iter_mut().chain([&mut config]) {
            config.ssl_mode(ssl_mode);
            if wanted {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
        }
        let identity = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                let what = "sslcert and sslkey are only of use together".to_owned();
                return Err(UrlError::Malformed { what });
            }
        };
        let tls = TlsChoice { verified, root, identity };
        Ok(Self { config, servers, tls, schema: schema.unwrap_or_default(), pool_max })
    }
}

/// The address once for each of its hosts. The driver tries one host after the other but has one timeout
/// for all, so an unresponsive first host would keep it from the second.
fn one_by_one(url: &str) -> Vec<String> {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let (user, rest) = rest.rsplit_once('@').map_or(("", rest), |(user, rest)| (user, rest));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (hosts, rest) = rest.split_at(end);
    hosts.split(',').map(|host| format!("{scheme}://{user}@{host}{rest}")).collect()
}

/// The parameters that the driver does not know, or not fully.
#[derive(Default)]
struct Parameters {
    ssl_mode: Option<SslChoice>,
    root: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
    schema: Option<SchemaName>,
    pool_max: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SslChoice {
    Disable,
    Prefer,
    Require,
    Verified,
}

// === impl Parameters ===

impl Parameters {
    /// Takes a `name=value` that is one of ours; `false` leaves it to the driver.
    fn take(&mut self, pair: &str) -> Result<bool, UrlError> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let [name, value] =
            [name, value].map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned());
        match name.as_str() {
            "sslmode" => self.ssl_mode = Some(SslChoice::parse(value)?),
            "sslrootcert" => self.root = Some(value.into()),
            "sslcert" => self.certificate = Some(value.into()),
            "sslkey" => self.key = Some(value.into()),
            "schema" => self.schema = Some(schema_name(value)?),
            "pool_max" => self.pool_max = Some(pool_max(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

// === impl SslChoice ===

impl SslChoice {
    fn parse(value: String) -> Result<Self, UrlError> {
        match value.as_str() {
            "disable" => Ok(Self::Disable),
            "allow" | "prefer" => Ok(Self::Prefer),
            "require" => Ok(Self::Require),
            "verify-ca" | "verify-full" => Ok(Self::Verified),
            _ => Err(UrlError::Parameter {
                name: "sslmode",
                value,
                cure: "one of disable, prefer, require, verify-ca, verify-full",
            }),
        }
    }
}

pub(crate) fn schema_name(value: String) -> Result<SchemaName, UrlError> {
    SchemaName::parse(value).map_err(|value| UrlError::Parameter {
        name: "schema",
        value,
        cure: "a schema is named by lower-case letters, digits and underscores",
    })
}

fn pool_max(value: String) -> Result<usize, UrlError> {
    match value.parse() {
        Ok(number @ 1..=POOL_MAX) => Ok(number),
        _ => Err(UrlError::Parameter { name: "pool_max", value, cure: "a number from 1 to 1000" }),
    }
}

/// The driver names the parameter and not its value, so nothing secret is in it.
fn malformed(error: &tokio_postgres::Error) -> UrlError {
    let what = std::error::Error::source(error)
        .map_or_else(|| error.to_string(), |cause| format!("the address is malformed: {cause}"));
    UrlError::Malformed { what }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Address {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}"))
    }

    fn fault(url: &str) -> String {
        match Address::parse(url) {
            Ok(_) => panic!("{url} was taken"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn the_usual_address() {
        let address = parse("postgres://shop:s%40cret@db.internal:6432/orders?connect_timeout=7");
        assert_eq!(address.config.get_user(), Some("shop"));
        assert_eq!(address.config.get_password(), Some(&b"s@cret"[..]));
        assert_eq!(address.config.get_hosts(), [Host::Tcp("db.internal".to_owned())]);
        assert_eq!(address.config.get_ports(), [6432]);
        assert_eq!(address.config.get_dbname(), Some("orders"));
        assert_eq!(address.schema, SchemaName::default());
        assert_eq!(address.config.get_ssl_mode(), SslMode::Prefer);
        assert!(!address.tls.verified);
    }

    #[test]
    fn settings_of_our_own_are_not_shown_to_the_driver() {
        let address = parse("postgresql://u@h/d?schema=idem&pool_max=4&application_name=x");
        assert_eq!(address.schema, SchemaName::parse("idem".to_owned()).unwrap());
        assert_eq!(address.pool_max, Some(4));
        assert_eq!(address.config.get_application_name(), Some("x"));
    }

    #[test]
    fn tls_is_chosen_as_libpq_does() {
        for (query, mode, verified) in [
            ("sslmode=disable", SslMode::Disable, false),
            ("sslmode=prefer", SslMode::Prefer, false),
            ("sslmode=require", SslMode::Require, false),
            ("sslmode=require&sslrootcert=/ca.pem", SslMode::Require, true),
            ("sslmode=verify-ca", SslMode::Require, true),
            ("sslmode=verify-full", SslMode::Require, true),
        ] {
            let address = parse(&format!("postgres://u@h/d?{query}"));
            assert_eq!((address.config.get_ssl_mode(), address.tls.verified), (mode, verified));
        }
    }

    #[test]
    fn of_several_servers_the_writable_one_is_wanted() {
        let attributes = |url| parse(url).config.get_target_session_attrs();
        assert_eq!(attributes("postgres://u@a,b/d"), TargetSessionAttrs::ReadWrite);
        assert_eq!(attributes("postgres://u@a/d"), TargetSessionAttrs::Any);
        let asked = "postgres://u@a,b/d?target_session_attrs=any";
        assert_eq!(attributes(asked), TargetSessionAttrs::Any);
    }

    #[test]
    fn several_servers_are_tried_one_by_one() {
        let url = "postgres://u:s%40cret@a:1,[::1]:2,c/d?connect_timeout=7&sslmode=require";
        let servers = parse(url).servers;
        let hosts: Vec<_> = servers.iter().map(|one| (one.get_hosts(), one.get_ports())).collect();
        let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
        let expected = [(tcp("a"), &[1][..]), (tcp("::1"), &[2]), (tcp("c"), &[5432])];
        for ((hosts, ports), (expected_hosts, expected_ports)) in hosts.iter().zip(&expected) {
            assert_eq!((*hosts, *ports), (&expected_hosts[..], *expected_ports));
        }
        assert_eq!(hosts.len(), 3);
        for one in servers {
            assert_eq!(one.get_password(), Some(&b"s@cret"[..]));
            assert_eq!(one.get_dbname(), Some("d"));
            assert_eq!(one.get_ssl_mode(), SslMode::Require);
            assert_eq!(one.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[test]
    fn faults_are_named_and_the_password_is_not() {
        for (url, message) in [
            ("mysql://u@h/d", "must begin with postgres://"),
            ("postgres://h/d", "names no user"),
            ("postgres:///d?user=u", "names no host"),
            ("postgres://u:hunter2@h:port/d", "malformed"),
            ("postgres://u:me@hunter2@h/d", "write %40"),
            ("postgres://u:me@@hunter2@h:1/d", "write %40"),
            ("postgres://u:hunter2@h/d?sslmode=maybe", "sslmode = \"maybe\""),
            ("postgres://u:hunter2@h/d?pool_max=0", "from 1 to 1000"),
            ("postgres://u:hunter2@h/d?schema=a.b", "schema = \"a.b\""),
            ("postgres://u:hunter2@h/d?sslcert=/c", "only of use together"),
            ("postgres://u:hunter2@h/d?colour=red", "colour"),
        ] {
            let text = fault(url);
            assert!(text.contains(message) && !text.contains("hunter2"), "{url}: {text}");
        }
    }
}
