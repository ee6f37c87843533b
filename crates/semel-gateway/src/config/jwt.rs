//! Where the keys of tokens are, and which tokens are accepted.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use semel_http::jwt::TokenAlgorithm;

use super::settings::jwt as settings;
use super::upstream::Upstream;
use super::values::Values;

/// How tokens are verified.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Jwt {
    /// Where the keys are.
    pub keys: KeysFrom,
    /// What tokens may be signed by.
    pub algorithms: Vec<TokenAlgorithm>,
    /// Who must have made them.
    pub issuer: String,
    /// The audiences that tokens must name one of; empty if that is not checked.
    pub audience: Vec<String>,
    /// How far the clocks of issuer and gateway may differ.
    pub leeway: Duration,
    /// PEM file with the certificates to trust instead of those of the system.
    pub ca: Option<PathBuf>,
    /// How often the keys are read again.
    pub refresh: Duration,
    /// How soon after one look a token may cause the next.
    pub min_refresh: Duration,
}

/// Where keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeysFrom {
    /// In a file.
    File(PathBuf),
    /// At a URL.
    Url(KeysUrl),
}

/// The URL of a key set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeysUrl {
    /// Scheme, host and port.
    pub server: Upstream,
    /// Path and query.
    pub target: String,
}

/// What follows "`keys` is …, ", and the cure.
pub(crate) type Refusal = (&'static str, &'static str);

// === impl Jwt ===

impl Jwt {
    /// What the table says, if it says enough.
    pub(super) fn of(values: &Values) -> Option<Self> {
        Some(Self {
            keys: values.get(&settings::KEYS)?,
            algorithms: values.get(&settings::ALGORITHMS).unwrap_or_default(),
            issuer: values.get(&settings::ISSUER)?,
            audience: values.get(&settings::AUDIENCE).unwrap_or_default(),
            leeway: values.get(&settings::LEEWAY),
            ca: values.get(&settings::CA),
            refresh: values.get(&settings::REFRESH),
            min_refresh: values.get(&settings::MIN_REFRESH),
        })
    }
}

// === impl KeysFrom ===

impl KeysFrom {
    pub(crate) fn parse(text: &str) -> Result<Self, Refusal> {
        if text.starts_with("http://") || text.starts_with("https://") {
            return KeysUrl::parse(text).map(Self::Url);
        }
        let path = text.strip_prefix("file:").unwrap_or(text);
        if path.is_empty() || path.contains('\0') || path.contains("://") {
            return Err((
                "which is neither a path nor a URL",
                "write the path of a file, or https://HOST/PATH of a JSON Web Key Set",
            ));
        }
        Ok(Self::File(PathBuf::from(path)))
    }
}

impl fmt::Display for KeysFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            // A query may have a token of its own.
            Self::Url(url) => {
                let path = url.target.split('?').next().unwrap_or_default();
                write!(f, "{}{path}", url.server)
            }
        }
    }
}

// === impl KeysUrl ===

impl KeysUrl {
    fn parse(text: &str) -> Result<Self, Refusal> {
        let unreadable = || ("which is not a URL", "write https://HOST/PATH of a JSON Web Key Set");
        let uri: Uri = text.parse().map_err(|_| unreadable())?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(unreadable)?;
        if text.contains('#') {
            return Err(("which has a fragment", "end it before the #"));
        }
        let server = Upstream::parse(&format!("{scheme}://{authority}"))?;
        if !server.is_https() && !is_loopback(&server.host) {
            return Err((
                "over which the keys could be changed on the way",
                "write https://; http:// is for this machine only",
            ));
        }
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { server, target })
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<String, &'static str> {
        KeysFrom::parse(text).map(|from| format!("{from:?}")).map_err(|(what, _)| what)
    }

    #[test]
    fn paths_and_urls_are_distinguished() {
        for path in ["keys.pem", "/etc/semel/keys.json", "file:/etc/semel/keys.json"] {
            assert!(parsed(path).unwrap().starts_with("File("), "{path}");
        }
        for url in [
            "https://login.example.com/.well-known/jwks.json",
            "https://login.example.com:8443/keys?appid=1",
            "http://127.0.0.1:9000/jwks",
            "http://localhost/jwks",
            "http://[::1]:1/",
        ] {
            assert!(parsed(url).unwrap().starts_with("Url("), "{url}");
        }
        let KeysFrom::Url(url) = KeysFrom::parse("https://h/keys/?a=b").unwrap() else { panic!() };
        assert_eq!((url.target.as_str(), url.server.port), ("/keys/?a=b", 443));
        assert_eq!(KeysFrom::Url(url).to_string(), "https://h/keys/");
    }

    #[test]
    fn what_others_could_change_is_refused() {
        for text in ["http://login.example.com/jwks", "http://10.0.0.1/jwks"] {
            assert!(parsed(text).unwrap_err().contains("on the way"), "{text}");
        }
        for text in ["", "file:", "ftp://h/keys", "https://", "https://u:p@h/", "https://h/#a"] {
            assert!(parsed(text).is_err(), "{text}");
        }
    }
}
