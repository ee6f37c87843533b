//! Where records are kept: what can be written for `store`, and how it is shown without secrets.

#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;

#[cfg(feature = "postgres")]
pub use postgres::PostgresAddress;
#[cfg(feature = "redis")]
pub use redis::RedisAddress;

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

use super::value::Refusal;

/// Where records are kept. Neither `Debug` nor `Display` shows a password.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreChoice {
    /// In memory, until the process ends.
    Memory,
    /// In this directory.
    Embedded(PathBuf),
    /// On a PostgreSQL server that several gateways may share.
    #[cfg(feature = "postgres")]
    Postgres(PostgresAddress),
    /// On a Redis server or cluster that several gateways may share.
    #[cfg(feature = "redis")]
    Redis(RedisAddress),
    /// On PostgreSQL, with copies of settled records in Redis before it.
    #[cfg(all(feature = "postgres", feature = "redis"))]
    Tiered {
        /// Where the copies are.
        near: RedisAddress,
        /// Where the records are.
        truth: PostgresAddress,
    },
}

/// Stores that this build does not have: how they are written, their names, and a cure.
const MISSING: &[(&str, &str, &str)] = &[
    #[cfg(not(all(feature = "postgres", feature = "redis")))]
    ("tiered:", "tiered", WITH_BOTH),
    #[cfg(not(feature = "redis"))]
    ("redis", "Redis", WITH_REDIS),
    #[cfg(not(feature = "redis"))]
    ("unix:", "Redis", WITH_REDIS),
    #[cfg(not(feature = "postgres"))]
    ("postgres:", "PostgreSQL", WITH_POSTGRES),
    #[cfg(not(feature = "postgres"))]
    ("postgresql:", "PostgreSQL", WITH_POSTGRES),
];

const FORMS: &str = r#"write "embedded:DIR", "postgres://USER@HOST/DATABASE", "redis://HOST", or "memory:" for tests"#;
#[cfg(all(feature = "postgres", feature = "redis"))]
const TIERED: &str = r#"write "tiered:redis://…|postgres://…", Redis first"#;
#[cfg(not(all(feature = "postgres", feature = "redis")))]
const WITH_BOTH: &str = r#"build it with the features `postgres` and `redis`, which are on by default, or write "embedded:DIR""#;
#[cfg(not(feature = "redis"))]
const WITH_REDIS: &str =
    r#"build it with the feature `redis`, which is on by default, or write "embedded:DIR""#;
#[cfg(not(feature = "postgres"))]
const WITH_POSTGRES: &str =
    r#"build it with the feature `postgres`, which is on by default, or write "embedded:DIR""#;

// === impl StoreChoice ===

impl StoreChoice {
    /// Reads it, or says what is wrong with it.
    pub(super) fn parse(text: &str) -> Result<Self, Refusal> {
        match text.split_once(':') {
            Some(("memory", "")) => Ok(Self::Memory),
            Some(("embedded", path)) => embedded(path),
            #[cfg(feature = "postgres")]
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                PostgresAddress::parse(text).map(Self::Postgres)
            }
            #[cfg(feature = "redis")]
            Some((scheme, rest))
                if RedisAddress::SCHEMES.contains(&scheme) && rest.starts_with("//") =>
            {
                RedisAddress::parse(text).map(Self::Redis)
            }
            #[cfg(all(feature = "postgres", feature = "redis"))]
            Some(("tiered", rest)) => tiered(rest),
            _ => Err(missing(text)),
        }
    }

    /// As one would write it, without secrets.
    pub(super) fn shown(&self) -> String {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.shown(),
            #[cfg(feature = "redis")]
            Self::Redis(address) => address.shown(),
            #[cfg(all(feature = "postgres", feature = "redis"))]
            Self::Tiered { near, truth } => format!("tiered:{}|{}", near.shown(), truth.shown()),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for StoreChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("memory:"),
            Self::Embedded(path) => write!(f, "embedded:{}", path.display()),
            #[cfg(feature = "postgres")]
            Self::Postgres(address) => address.fmt(f),
            #[cfg(feature = "redis")]
            Self::Redis(address) => address.fmt(f),
            #[cfg(all(feature = "postgres", feature = "redis"))]
            Self::Tiered { near, truth } => write!(f, "tiered:{near}|{truth}"),
        }
    }
}

/// An address that is shown without secrets, and those of its parameters that may be shown.
#[cfg(any(feature = "postgres", feature = "redis"))]
fn with_parameters(mut shown: String, url: &str, plain: &[&str]) -> String {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    for pair in
        query.split('&').filter(|pair| plain.contains(&pair.split('=').next().unwrap_or("")))
    {
        let sign = if shown.contains('?') { "&" } else { "?" };
        shown.extend([sign, pair]);
    }
    shown
}

/// A store that was refused, for a fault. Where its password ends is not known,
/// so of what may have one only the beginning is shown.
pub(super) fn redacted(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else {
        let may_have_one = text.contains('@') || text.contains('=');
        return if may_have_one { "***".to_owned() } else { text.to_owned() };
    };
    let is_word = scheme.chars().all(|c| c.is_ascii_alphanumeric() || c == '+');
    match (is_word, rest.contains(['@', ':', '='])) {
        (true, true) => format!("{scheme}://***"),
        (true, false) => text.to_owned(),
        (false, _) => "***".to_owned(),
    }
}

/// Which bytes of a value may be secret, as it is written in the file, quotes included.
pub(super) fn secret_in(written: &str) -> Range<usize> {
    let end = written.len().saturating_sub(1);
    let inner = written.get(1..end).unwrap_or_default();
    let is_plain = !inner.contains(['\\', '\n']) && redacted(inner) == inner;
    if is_plain || inner.starts_with("embedded:") {
        return end..end;
    }
    // With escapes it is not yet what it says.
    let scheme = redacted(inner).find("***").filter(|at| *at > 0).unwrap_or_default();
    1 + scheme..end
}

fn embedded(path: &str) -> Result<StoreChoice, Refusal> {
    let refused = |what: &str, cure: &str| Err((what.to_owned(), cure.to_owned()));
    if path.is_empty() {
        let cure = r#"write it behind the colon, such as "embedded:./semel-data""#;
        return refused("which names no directory", cure);
    }
    if path.starts_with("//") || path.contains('\0') {
        let cure = r#"write it without slashes of a URL, such as "embedded:./semel-data""#;
        return refused("which is not a directory", cure);
    }
    Ok(StoreChoice::Embedded(PathBuf::from(path)))
}

#[cfg(all(feature = "postgres", feature = "redis"))]
fn tiered(rest: &str) -> Result<StoreChoice, Refusal> {
    let parse = |(near, truth)| (StoreChoice::parse(near), StoreChoice::parse(truth));
    let both = rest.split_once('|').map(parse);
    match both {
        Some((Ok(StoreChoice::Redis(near)), Ok(StoreChoice::Postgres(truth)))) => {
            Ok(StoreChoice::Tiered { near, truth })
        }
        Some((Err(fault), _) | (_, Err(fault))) => Err(fault),
        _ => Err(("which is not Redis before PostgreSQL".to_owned(), TIERED.to_owned())),
    }
}

fn missing(text: &str) -> Refusal {
    match MISSING.iter().find(|(prefix, ..)| text.starts_with(prefix)) {
        Some((_, name, cure)) => {
            (format!("and this build has no {name} store"), (*cure).to_owned())
        }
        None => ("which is not a store".to_owned(), FORMS.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_store_is_shown_without_what_may_be_a_password() {
        for (text, expected) in [
            ("sqlite:a", "sqlite:a"),
            ("mysql://h/d", "mysql://h/d"),
            ("redis://:hunter2@h", "redis://***"),
            ("postgres://u:hunter2", "postgres://***"),
            ("postgres:u:hunter2@h", "***"),
            ("u:hunter2@h/d", "***"),
            ("host=h password=hunter2", "***"),
            ("password=hunter2 x://h", "***"),
        ] {
            assert_eq!(redacted(text), expected);
        }
    }

    #[test]
    fn a_store_is_written_as_it_is_read() {
        for text in ["memory:", "embedded:./semel-data", "embedded:/a@b"] {
            let store = StoreChoice::parse(text).unwrap();
            assert_eq!((store.to_string(), store.shown()), (text.to_owned(), text.to_owned()));
        }
    }

    #[cfg(not(feature = "redis"))]
    #[test]
    fn without_the_feature_redis_is_refused_with_the_cure() {
        for text in ["redis://h", "rediss+cluster://a,b", "unix:///run/redis.sock"] {
            let (what, cure) = StoreChoice::parse(text).unwrap_err();
            assert_eq!(what, "and this build has no Redis store");
            assert!(cure.contains("feature `redis`"), "{cure}");
        }
    }

    #[cfg(not(feature = "postgres"))]
    #[test]
    fn without_the_feature_postgres_is_refused_with_the_cure() {
        for text in ["postgres://u:p@h/d", "postgresql://u@h/d"] {
            let (what, cure) = StoreChoice::parse(text).unwrap_err();
            assert_eq!(what, "and this build has no PostgreSQL store");
            assert!(cure.contains("feature `postgres`"), "{cure}");
        }
    }
}
