//! The address of a Redis server, of sentinels or of a cluster.

use std::fmt;

use semel_redis::{Options, UrlError};

use super::with_parameters;
use crate::config::value::Refusal;

/// The address of a Redis server or cluster, checked. Its password is in [`options`](Self::options) and
/// is shown nowhere.
#[derive(Clone)]
pub struct RedisAddress {
    /// As it was written, with everything. For comparing only.
    url: String,
    /// Boxed: it is large, and there are many values of settings.
    options: Box<Options>,
}

/// The parameters that may be shown.
const SHOWN: [&str; 6] =
    ["prefix", "pool_max", "wait_replicas", "sslrootcert", "sslcert", "sslkey"];

// === impl RedisAddress ===

impl RedisAddress {
    /// What an address begins with.
    pub(super) const SCHEMES: [&str; 8] = [
        "redis",
        "rediss",
        "unix",
        "redis+unix",
        "redis+sentinel",
        "rediss+sentinel",
        "redis+cluster",
        "rediss+cluster",
    ];

    pub(super) fn parse(url: &str) -> Result<Self, Refusal> {
        match Options::from_url(url) {
            Ok(options) => Ok(Self { url: url.to_owned(), options: Box::new(options) }),
            Err(error) => Err(refusal(error)),
        }
    }

    /// Where the servers are, and how to speak with them.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// As one would write it, without secrets.
    pub(super) fn shown(&self) -> String {
        with_parameters(self.options.to_string(), &self.url, &SHOWN)
    }
}

impl PartialEq for RedisAddress {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for RedisAddress {}

impl fmt::Display for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl fmt::Debug for RedisAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisAddress").field(&self.to_string()).finish()
    }
}

/// What is wrong with an address, and the cure.
fn refusal(error: UrlError) -> Refusal {
    match error {
        UrlError::Parameter { name, value, cure } => {
            (format!("in which {name} is {value:?}"), format!("write {cure}"))
        }
        UrlError::Malformed { what, example } => {
            (format!("and {what}"), format!("write {example:?}"))
        }
        other => (format!("and {other}"), "write \"redis://USER:PASSWORD@HOST:PORT\"".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_secrets() {
        for (url, expected) in [
            ("redis://u:hunter2@h", "redis://u@h:6379"),
            ("rediss://:hunter2@h:1/2?prefix=a:", "rediss://h:1?db=2&prefix=a:"),
            (
                "redis+cluster://u:hunter2@a,b:2?pool_max=3",
                "redis+cluster://u@a:6379,b:2?pool_max=3",
            ),
            (
                "redis+sentinel://a,b/main?sentinel_password=hunter2",
                "redis+sentinel://a:26379,b:26379/main",
            ),
            ("unix:///run/redis.sock", "unix:///run/redis.sock"),
        ] {
            let address = RedisAddress::parse(url).unwrap_or_else(|why| panic!("{url}: {why:?}"));
            assert_eq!(address.shown(), expected);
            for shown in [format!("{address:?}"), address.to_string()] {
                assert!(!shown.contains("hun"), "{shown}");
            }
        }
    }

    #[test]
    fn another_password_is_another_address() {
        let parse = |url| RedisAddress::parse(url).unwrap();
        assert_ne!(parse("redis://u:a@h"), parse("redis://u:b@h"));
        assert_eq!(parse("redis://u:a@h"), parse("redis://u:a@h"));
    }

    #[test]
    fn faults_have_a_cure_and_no_password() {
        for (url, said) in [
            ("redis://u:hun@ter2@h", "two @"),
            ("redis://u:hunter2@h?pool_max=0", "in which pool_max is \"0\""),
            ("redis://u:hunter2@h?colour=red", "no parameter \"colour\""),
            ("redis+sentinel://u:hunter2@a", "which master"),
        ] {
            let (what, cure) = RedisAddress::parse(url).expect_err(url);
            assert!(what.contains(said) && !what.contains("hun"), "{what}");
            assert!(cure.starts_with("write "), "{cure}");
        }
    }
}
