use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use http::Uri;

/// The API behind the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upstream {
    /// How it is spoken to.
    pub scheme: Scheme,
    /// Its name or address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// What is put in front of every path: empty, or with a slash at the start and none at the end.
    pub base_path: String,
}

/// How an upstream is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plain HTTP.
    Http,
    /// HTTP over TLS.
    Https,
}

const FORMS: &str = r#"write "http://HOST:PORT" or "https://HOST:PORT", if need be with a path"#;

// === impl Upstream ===

impl Upstream {
    /// Reads a URL. The error is what is wrong with it, and a cure.
    pub(super) fn parse(text: &str) -> Result<Self, (&'static str, &'static str)> {
        let unreadable = || ("which is not the URL of a server", FORMS);
        let uri: Uri = text.parse().map_err(|_| unreadable())?;
        let authority = uri.authority().ok_or_else(unreadable)?;
        let scheme = match uri.scheme_str() {
            Some("http") => Scheme::Http,
            Some("https") => Scheme::Https,
            _ => return Err(unreadable()),
        };
        if authority.as_str().contains('@') {
            return Err((
                "which has a user name or password",
                "leave it out; let clients or the upstream bring it",
            ));
        }
        // The parser of URLs drops a fragment without a word.
        if uri.query().is_some() || text.contains('#') {
            return Err(("which goes on after the path", "end it with the path"));
        }
        let host = unbracketed(authority.host()).ok_or_else(unreadable)?.to_owned();
        let after_host = &authority.as_str()[authority.host().len()..];
        let port = match after_host.strip_prefix(':') {
            None => scheme.port(),
            Some(digits) => digits.parse().ok().filter(|port| *port > 0).ok_or_else(unreadable)?,
        };
        let base_path = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, host, port, base_path })
    }

    /// Is it spoken to over TLS?
    pub fn is_https(&self) -> bool {
        self.scheme == Scheme::Https
    }

    /// `HOST`, or `HOST:PORT` if the port is not the scheme's own: what `Host` says.
    pub fn authority(&self) -> String {
        let host = match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]"),
            Err(_) => self.host.clone(),
        };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_https() { "https" } else { "http" };
        write!(f, "{scheme}://{}{}", self.authority(), self.base_path)
    }
}

// === impl Scheme ===

impl Scheme {
    /// The port where none is named.
    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// Is it a name or an address?
pub(super) fn is_host(text: &str) -> bool {
    let named = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_name = text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(named);
    text.len() <= 253 && (is_name || text.parse::<IpAddr>().is_ok())
}

fn unbracketed(host: &str) -> Option<&str> {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|inner| inner.parse::<Ipv6Addr>().is_ok()),
        None => Some(host).filter(|host| is_host(host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_written() {
        let same = [
            "http://127.0.0.1:3000",
            "https://api.example.com",
            "http://api_1.internal:8080/base/path",
            "http://[::1]:3000",
        ];
        for text in same {
            assert_eq!(Upstream::parse(text).unwrap().to_string(), text);
        }
        let parsed = Upstream::parse("https://API:443/base/").unwrap();
        assert_eq!((parsed.port, parsed.base_path.as_str()), (443, "/base"));
        assert_eq!(parsed.authority(), "API");
        assert_eq!(Upstream::parse("http://[::1]").unwrap().host, "::1");
    }

    #[test]
    fn other_texts_are_refused() {
        let texts = [
            "",
            "localhost:3000",
            "/path",
            "ftp://h",
            "http://",
            "http://:80",
            "http://h:",
            "http://h:0",
            "http://h:99999",
            "http://h:x",
            "http://a b",
            "http://a$b",
            "http://[::1",
            "http://[x]:1",
            "http://-h",
            "http://h,i",
            "//h:1",
        ];
        for text in texts {
            let what = Upstream::parse(text).map_err(|(what, _)| what);
            assert_eq!(what, Err("which is not the URL of a server"), "{text}");
        }
        assert_eq!(
            Upstream::parse("http://u:p@h").unwrap_err().0,
            "which has a user name or password"
        );
        for text in ["http://h/?a=1", "http://h/#a"] {
            assert_eq!(Upstream::parse(text).unwrap_err().0, "which goes on after the path");
        }
    }
}
