//! Failures, and their meaning for the caller.

use std::error::Error as _;
use std::time::Duration;

use semel_store::{StoreError, is_exhausted};
use tokio_postgres::error::{DbError, Severity, SqlState};

use crate::Options;
use crate::schema_name::SchemaName;

/// Why a store could not be opened. Each message has a cure; none shows a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The server cannot be reached.
    #[error("{server} cannot be reached: {what}; is the server up, and is the address right?")]
    Unreachable {
        /// The address, without secrets.
        server: String,
        /// The error of the connection.
        what: String,
    },
    /// This process has no file descriptor, memory or local port left. It is no statement about the server.
    #[error(
        "this process has no file descriptor, memory or local port left to reach {server}: {what}; let it have more \
         (LimitNOFILE= of systemd, ulimit -n), or have fewer connections"
    )]
    Exhausted {
        /// The address, without secrets.
        server: String,
        /// The error of the operating system.
        what: String,
    },
    /// The server rejects the login.
    #[error("{server} refuses us: {what}; check user and password, or set PGPASSWORD")]
    Refused {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The server has no such database.
    #[error("{server}: {what}; check the name of the database, or create it")]
    DatabaseMissing {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The user lacks rights on the tables.
    #[error("{server}: {what}; {cure}")]
    Forbidden {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
        /// The missing grants.
        cure: String,
    },
    /// Another session holds a lock that a migration needs.
    #[error(
        "{server}: {what}; another migration or a long transaction is under way, and nothing was \
         changed: try again"
    )]
    Locked {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The server's limit of connections is reached.
    #[error("{server} has no connection left: {what}; lower pool_max, or raise max_connections")]
    TooManyConnections {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
    },
    /// `semel migrate` was never run.
    #[error("there is no schema {schema} in {server}; create it: semel migrate --store URL")]
    SchemaMissing {
        /// The address, without secrets.
        server: String,
        /// The schema.
        schema: String,
    },
    /// `semel migrate` was run by an earlier version.
    #[error(
        "the schema {schema} has version {found}, and this version of Semel needs {needed}; \
         upgrade it: semel migrate --store URL"
    )]
    SchemaOld {
        /// The schema.
        schema: String,
        /// Its version.
        found: i32,
        /// The version needed.
        needed: i32,
    },
    /// `semel migrate` was run by a later version whose schema this version cannot use.
    #[error(
        "the schema {schema} has version {found}, and this version of Semel knows {known}; \
         update Semel"
    )]
    SchemaNewer {
        /// The schema.
        schema: String,
        /// Its version.
        found: i32,
        /// The newest version known here.
        known: i32,
    },
    /// The server is read-only.
    #[error(
        "{server} is read-only, a standby perhaps; name the primary, or all servers \
         (postgres://USER@HOST1,HOST2/DATABASE)"
    )]
    ReadOnly {
        /// The address, without secrets.
        server: String,
    },
    /// The server would lose acknowledged records in a crash.
    #[error("{what}")]
    NotDurable {
        /// The setting, and the cure.
        what: String,
    },
    /// TLS could not be set up.
    #[error("TLS: {what}")]
    Tls {
        /// What is wrong.
        what: String,
    },
    /// The server returned another error.
    #[error("{server} answers: {what}")]
    Server {
        /// The address, without secrets.
        server: String,
        /// The server's error.
        what: String,
    },
}

// === impl OpenError ===

impl OpenError {
    /// The server does not respond.
    pub(crate) fn timed_out(options: &Options, limit: Duration) -> Self {
        let what = format!("no answer within {limit:?}");
        Self::Unreachable { server: options.to_string(), what }
    }

    /// The error of a connection attempt.
    pub(crate) fn connection(options: &Options, error: &tokio_postgres::Error) -> Self {
        let (server, what) = (options.to_string(), message(error));
        let Some(state) = error.code() else {
            if is_exhausted(error) {
                return Self::Exhausted { server, what };
            }
            // The driver has no error kinds for these.
            return if error.to_string().contains("TLS") {
                Self::Tls { what: format!("{server}: {what}") }
            } else if what.contains("password missing") {
                Self::Refused { server, what: "it asks for a password".to_owned() }
            } else {
                Self::Unreachable { server, what }
            };
        };
        match state.code().get(..2) {
            Some("28") => Self::Refused { server, what },
            Some("3D") => Self::DatabaseMissing { server, what },
            _ => Self::answered(server, state, what),
        }
    }

    /// The error of a query while a connection or schema is prepared.
    #[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
    pub(crate) fn query(options: &Options, error: tokio_postgres::Error) -> Self {
        let server = options.to_string();
        match error.code() {
            Some(state) if is_schema_missing(state) => {
                Self::SchemaMissing { server, schema: options.schema.to_string() }
            }
            Some(&SqlState::READ_ONLY_SQL_TRANSACTION) => Self::ReadOnly { server },
            Some(&SqlState::LOCK_NOT_AVAILABLE) => Self::Locked { server, what: message(&error) },
            Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
                let user = options.config.get_user().unwrap_or_default();
                let cure = grants(user, &options.schema);
                Self::Forbidden { server, what: message(&error), cure }
            }
            Some(state) => Self::answered(server, state, message(&error)),
            None => Self::Unreachable { server, what: message(&error) },
        }
    }

    /// All other errors, by the class of the SQLSTATE.
    fn answered(server: String, state: &SqlState, what: String) -> Self {
        match state.code().get(..2) {
            Some("53") => Self::TooManyConnections { server, what },
            // A connection that broke; a server that starts up or shuts down.
            Some("08" | "57") => Self::Unreachable { server, what },
            _ => Self::Server { server, what },
        }
    }

    /// The error of a migration.
    pub(crate) fn migration(options: &Options, error: tokio_postgres::Error) -> Self {
        match Self::query(options, error) {
            Self::Forbidden { server, what, .. } => {
                let user = quoted(options.config.get_user().unwrap_or_default());
                let (database, schema) = (quoted(options.database()), &options.schema);
                let cure = format!(
                    "migrate as the owner of the schema {schema}, or let a superuser run: GRANT \
                     CREATE ON DATABASE {database} TO {user}"
                );
                Self::Forbidden { server, what, cure }
            }
            other => other,
        }
    }

    /// The meaning for a caller of the running store: no query was sent yet, so nothing took effect.
    pub(crate) fn to_store_error(&self) -> StoreError {
        let what = self.to_string();
        match self {
            // Permanent until an operator changes the configuration.
            Self::SchemaMissing { .. }
            | Self::SchemaOld { .. }
            | Self::SchemaNewer { .. }
            | Self::DatabaseMissing { .. }
            | Self::Forbidden { .. }
            | Self::NotDurable { .. } => StoreError::Misconfigured { what },
            Self::Exhausted { .. } => StoreError::not_asked(what),
            // An interrupted handshake, or an unavailable authentication service, looks like a wrong
            // setting.
            Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::TooManyConnections { .. }
            | Self::ReadOnly { .. }
            | Self::Locked { .. }
            | Self::Tls { .. }
            | Self::Server { .. } => StoreError::unavailable(what),
        }
    }
}

impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        error.to_store_error()
    }
}

/// The meaning of a failed verb.
///
/// A verb is one statement that commits by itself. An error that leaves the session alive has rolled
/// it back. An error that ends the session, or a connection that breaks, may have come between the
/// commit and its answer: the verb may have taken effect.
pub(crate) fn verb_failed(
    verb: &str,
    schema: &SchemaName,
    error: tokio_postgres::Error,
) -> StoreError {
    let what = format!("{verb}: {}", message(&error));
    let Some(server) = error.as_db_error() else {
        return StoreError::TimedOut { what, source: Some(Box::new(error)) };
    };
    if ends_session(server) {
        return StoreError::TimedOut { what, source: Some(Box::new(error)) };
    }
    match server.code() {
        state if is_schema_missing(state) => StoreError::Misconfigured {
            what: format!("{what}; has `semel migrate` been run for the schema {schema}?"),
        },
        &SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Misconfigured {
            what: format!("{what}; {}", grants("user_of_semel", schema)),
        },
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => StoreError::Corrupt { what },
        &SqlState::LOCK_NOT_AVAILABLE if is_about_one_row(server) => StoreError::Declined {
            what: format!("{what}; another transaction has locked this record, and has not ended"),
            source: Some(Box::new(error)),
        },
        _ => StoreError::Unavailable { what, source: Some(Box::new(error)) },
    }
}

/// Whether the connection should be replaced, though the server still responds on it.
pub(crate) fn spoils_connection(error: &tokio_postgres::Error) -> bool {
    // A failover made the server a standby, or the schema of the prepared statements was replaced.
    error.code().is_some_and(|state| {
        *state == SqlState::READ_ONLY_SQL_TRANSACTION
            || *state == SqlState::INVALID_SQL_STATEMENT_NAME
            || *state == SqlState::FEATURE_NOT_SUPPORTED
            || is_schema_missing(state)
    })
}

/// The grants that let a user work with a schema of another owner.
fn grants(user: &str, schema: &SchemaName) -> String {
    let user = quoted(user);
    format!(
        "let its owner run: GRANT USAGE ON SCHEMA {schema} TO {user}; GRANT SELECT, INSERT, UPDATE, \
         DELETE ON ALL TABLES IN SCHEMA {schema} TO {user}; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA \
         {schema} TO {user}"
    )
}

/// An SQL identifier, quoted where needed.
fn quoted(name: &str) -> String {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
    if name.bytes().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit()) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn ends_session(error: &DbError) -> bool {
    match error.parsed_severity() {
        Some(Severity::Error) => false,
        // An older server sends the severity in its own language only: assume the worse.
        Some(_) | None => true,
    }
}

/// Whether a wait for the lock of a single row timed out. Then other records are not affected; a lock on
/// the table affects all. With a server that reports in another language than English the table is
/// assumed.
fn is_about_one_row(error: &DbError) -> bool {
    error.where_().is_some_and(|place| place.contains(" tuple "))
}

fn is_schema_missing(state: &SqlState) -> bool {
    [
        &SqlState::UNDEFINED_TABLE,
        &SqlState::UNDEFINED_FUNCTION,
        &SqlState::UNDEFINED_COLUMN,
        &SqlState::UNDEFINED_OBJECT,
        &SqlState::INVALID_SCHEMA_NAME,
    ]
    .contains(&state)
}

/// The server's message, or the driver's with its cause.
fn message(error: &tokio_postgres::Error) -> String {
    match (error.as_db_error(), error.source()) {
        (Some(server), _) => format!("{} ({})", server.message(), server.code().code()),
        (None, Some(cause)) => format!("{error}: {cause}"),
        (None, None) => error.to_string(),
    }
}
