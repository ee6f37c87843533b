//! The address of a PostgreSQL server.

use std::fmt;

use semel_postgres::{Options, UrlError};

use super::with_parameters;
use crate::config::value::Refusal;

/// The address of a PostgreSQL server, checked. Its password is in [`options`](Self::options) and is
/// shown nowhere.
#[derive(Clone)]
pub struct PostgresAddress {
    /// As it was written, with everything. For comparing only.
    url: String,
    /// Boxed: it is large, and there are many values of settings.
    options: Box<Options>,
}

/// The parameters that may be shown; others may be secrets, or are not known to be none.
const SHOWN: [&str; 9] = [
    "sslmode",
    "sslrootcert",
    "sslcert",
    "sslkey",
    "pool_max",
    "connect_timeout",
    "application_name",
    "target_session_attrs",
    "load_balance_hosts",
];

const FORM: &str = r#"write "postgres://USER:PASSWORD@HOST:PORT/DATABASE""#;
const ENCODED: &str = "write what is special in a URL percent-encoded: @ is %40, : is %3A, / is %2F, ? is %3F, % is %25";

// === impl PostgresAddress ===

impl PostgresAddress {
    pub(super) fn parse(url: &str) -> Result<Self, Refusal> {
        // The driver cuts at the first @, wherever that is. Were it a part of the password, what
        // follows would be taken for the host, and hosts are shown.
        let authority = url.split(['/', '?', '#']).nth(2).unwrap_or_default();
        let ends = authority.matches('@').count();
        if ends > 1 || url.matches('@').count() > ends {
            let what = "whose password has no clear end";
            return Err((what.to_owned(), ENCODED.to_owned()));
        }
        // Without a user, a password is where none is expected: no part of it is shown.
        if !url.contains('@') && !url.contains("user=") {
            return Err(("and it names no user".to_owned(), FORM.to_owned()));
        }
        match Options::from_url(url) {
            Ok(options) => Ok(Self { url: url.to_owned(), options: Box::new(options) }),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Where the server is, and how to speak with it.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// As one would write it, without secrets.
    pub(super) fn shown(&self) -> String {
        with_parameters(self.options.to_string(), &self.url, &SHOWN)
    }
}

impl PartialEq for PostgresAddress {
    fn eq(&self, other: &Self) -> bool {
        self.url == other.url
    }
}

impl Eq for PostgresAddress {}

impl fmt::Display for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.options.fmt(f)
    }
}

impl fmt::Debug for PostgresAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresAddress").field(&self.to_string()).finish()
    }
}

/// What is wrong with an address, and the cure.
fn refusal(error: &UrlError) -> Refusal {
    match error {
        UrlError::Parameter { name, value, cure } => {
            (format!("in which {name} is {value:?}"), format!("write {cure}"))
        }
        UrlError::Malformed { what } => (format!("and {what}"), FORM.to_owned()),
        other => (format!("and {other}"), FORM.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_shown_without_secrets() {
        for (url, expected) in [
            ("postgres://u:hunter2@h/d", "postgres://u@h:5432/d?schema=semel"),
            (
                "postgresql://u:hunter2@h:6432/d?sslmode=require&schema=idem&pool_max=4",
                "postgres://u@h:6432/d?schema=idem&sslmode=require&pool_max=4",
            ),
            (
                "postgres://h/d?user=u&password=hunter2&pass%77ord=hunter2",
                "postgres://u@h:5432/d?schema=semel",
            ),
            ("postgres://u:hunter'2 \"@h/d", "postgres://u@h:5432/d?schema=semel"),
        ] {
            let address =
                PostgresAddress::parse(url).unwrap_or_else(|why| panic!("{url}: {why:?}"));
            assert_eq!(address.shown(), expected);
            for shown in [format!("{address:?}"), address.to_string()] {
                assert!(!shown.contains("hun"), "{shown}");
            }
        }
    }

    #[test]
    fn another_password_is_another_address() {
        let parse = |url| PostgresAddress::parse(url).unwrap();
        assert_ne!(parse("postgres://u:a@h/d"), parse("postgres://u:b@h/d"));
        assert_eq!(parse("postgres://u:a@h/d"), parse("postgres://u:a@h/d"));
    }

    #[test]
    fn a_password_that_spills_into_the_host_is_refused() {
        for url in [
            "postgres://u:hunter@2@h/d",
            "postgres://u:hun/ter@h/d",
            "postgres://u:hun/ter@2@h/d",
            "postgres://u:hun?ter=@h/d",
            "postgres://h/d?user=u&password=hunter@2",
        ] {
            let (what, cure) = PostgresAddress::parse(url).expect_err(url);
            assert!(!what.contains("hun") && cure.contains("%40"), "{what} {cure}");
        }
    }
}
