//! Failures, and their meaning for the caller.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use semel_core::RecordId;
use semel_store::{StoreError, is_exhausted};

use crate::Options;
use crate::url::Endpoint;
use crate::value::Damage;

/// Why a store could not be opened. Each message has a cure; none shows a password.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The server cannot be reached.
    #[error("{server} cannot be reached: {what}; is the server up, and is the address right?")]
    Unreachable {
        /// The address.
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
        /// The address.
        server: String,
        /// The error of the operating system.
        what: String,
    },
    /// The server rejects the login.
    #[error(
        "{server} refuses us: {what}; check user and password (in the address, or the password in \
         REDISCLI_AUTH)"
    )]
    Refused {
        /// The address.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The server's limit of clients is reached.
    #[error(
        "{server} takes no more connections: {what}; raise maxclients on it, or have fewer clients: \
         pool_max in the address, times the gateways"
    )]
    Full {
        /// The address.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The user lacks the rights that a store needs.
    #[error(
        "{server}: {what}; let its administrator run: ACL SETUSER USER ~PREFIX* &PREFIX* +evalsha +eval \
         +script|load +time +get +getrange +set +pexpireat +spublish +ssubscribe +sunsubscribe +wait \
         +info +config|get +cluster|slots +asking +select +ping"
    )]
    Forbidden {
        /// The address.
        server: String,
        /// The server's error.
        what: String,
    },
    /// Too many verbs wait for replicas.
    #[error(
        "{server}: {max} verbs wait for replicas already, and this is the limit; are the replicas up?"
    )]
    Busy {
        /// The address.
        server: String,
        /// The limit.
        max: usize,
    },
    /// The server is a replica, or cannot write for another reason.
    #[error(
        "{server} cannot be written to: {what}; of a replica name the master, or its sentinels \
         (redis+sentinel://HOST1,HOST2/NAME)"
    )]
    ReadOnly {
        /// The address.
        server: String,
        /// The server's error.
        what: String,
    },
    /// The server is one of a cluster.
    #[error("{server} belongs to a cluster; write redis+cluster://{server}")]
    IsCluster {
        /// The address.
        server: String,
    },
    /// The server is not one of a cluster.
    #[error("{server} does not belong to a cluster; write redis://{server}")]
    NoCluster {
        /// The address.
        server: String,
    },
    /// No sentinel knows the master.
    #[error(
        "the sentinels know no master {name}: {what}; check the name (sentinel monitor NAME …)"
    )]
    NoMaster {
        /// Its name.
        name: String,
        /// The last error.
        what: String,
    },
    /// The server is too old.
    #[error("{server} is {found}; Semel needs Redis 7.0 or later, or Valkey")]
    TooOld {
        /// The address.
        server: String,
        /// Its version.
        found: String,
    },
    /// The server may lose acknowledged records, and durability is required.
    #[error("{server} is not durable enough: {what}")]
    NotDurable {
        /// The address.
        server: String,
        /// The settings and their cures.
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
        /// The address.
        server: String,
        /// The server's error.
        what: String,
    },
}

/// The server's error code for a full memory.
const FULL: &str = "OOM";

// === impl OpenError ===

impl OpenError {
    /// The server does not respond.
    pub(crate) fn timed_out(server: &Endpoint, limit: Duration) -> Self {
        let what = format!("no answer within {limit:?}");
        Self::Unreachable { server: server.to_string(), what }
    }

    pub(crate) fn io(server: &Endpoint, error: &std::io::Error) -> Self {
        let (server, what) = (server.to_string(), error.to_string());
        if is_exhausted(error) {
            return Self::Exhausted { server, what };
        }
        Self::Unreachable { server, what }
    }

    /// The more useful of two failures: exhaustion of this process, which is no statement about any
    /// server, wins.
    pub(crate) fn or(self, other: Self) -> Self {
        if matches!(self, Self::Exhausted { .. }) { self } else { other }
    }

    /// The error that a server returned while a connection was made.
    pub(crate) fn reported(server: &Endpoint, error: &RedisError) -> Self {
        Self::answered(server.to_string(), error)
    }

    fn answered(server: String, error: &RedisError) -> Self {
        let what = error.to_string();
        match error.kind() {
            _ if what.contains("max number of clients") => return Self::Full { server, what },
            ErrorKind::AuthenticationFailed => return Self::Refused { server, what },
            ErrorKind::Io => return Self::Unreachable { server, what },
            _ if is_forbidden(error) => return Self::Forbidden { server, what },
            ErrorKind::Server(ServerErrorKind::BusyLoading | ServerErrorKind::MasterDown) => {
                return Self::Unreachable { server, what };
            }
            ErrorKind::Server(ServerErrorKind::ReadOnly) => return Self::ReadOnly { server, what },
            ErrorKind::Server(ServerErrorKind::Moved) => return Self::IsCluster { server },
            _ => {}
        }
        match error.code() {
            Some("NOAUTH" | "WRONGPASS") => Self::Refused { server, what },
            Some(FULL | "MISCONF" | "NOREPLICAS") => Self::ReadOnly { server, what },
            _ => Self::Server { server, what },
        }
    }
}

/// The meaning for a caller of the running store: no command was sent yet, so nothing took effect.
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        let what = error.to_string();
        match error {
            OpenError::Exhausted { .. } => Self::not_asked(what),
            // Permanent until an operator changes the configuration.
            OpenError::Forbidden { .. }
            | OpenError::IsCluster { .. }
            | OpenError::NoCluster { .. }
            | OpenError::TooOld { .. }
            | OpenError::NotDurable { .. } => Self::Misconfigured { what },
            // A restarting server or an interrupted handshake may also look like these.
            OpenError::Unreachable { .. }
            | OpenError::Busy { .. }
            | OpenError::Full { .. }
            | OpenError::Refused { .. }
            | OpenError::ReadOnly { .. }
            | OpenError::NoMaster { .. }
            | OpenError::Tls { .. }
            | OpenError::Server { .. } => Self::unavailable(what),
        }
    }
}

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no connection: nothing took effect.
    NotSent(OpenError),
    /// The connection broke after the command was sent: it may have taken effect.
    Broken(RedisError),
    /// The pending queue was full, so the command was not sent: nothing took effect.
    QueueFull,
    /// The reply did not arrive in time: it may have taken effect.
    Timeout,
    /// The server returned an error: nothing took effect.
    Refused(RedisError),
    /// It took effect, but too few replicas are known to have it.
    FewReplicas { have: u32 },
    /// It took effect, but the number of replicas that have it is unknown.
    Unconfirmed(RedisError),
}

// === impl Failure ===

impl Failure {
    pub(crate) fn of(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(error),
            // Any other kind is not the server's reply to this command.
            _ => Self::Broken(error),
        }
    }

    pub(crate) fn maybe_applied(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Timeout | Self::FewReplicas { .. } | Self::Unconfirmed(_) => {
                true
            }
            Self::NotSent(_) | Self::QueueFull | Self::Refused(_) => false,
        }
    }

    /// Whether another server may be in charge by now.
    pub(crate) fn may_have_moved(&self) -> bool {
        match self {
            // A server that is being demoted may not reply.
            Self::NotSent(_)
            | Self::Broken(_)
            | Self::QueueFull
            | Self::Timeout
            | Self::Unconfirmed(_) => true,
            Self::Refused(error) => matches!(
                error.kind(),
                ErrorKind::Server(
                    ServerErrorKind::ReadOnly
                        | ServerErrorKind::MasterDown
                        | ServerErrorKind::ClusterDown
                )
            ),
            Self::FewReplicas { .. } => false,
        }
    }
}

/// A verb that failed, as far as is known.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) failure: Failure,
    pub(crate) server: String,
}

// === impl Failed ===

impl Failed {
    pub(crate) fn maybe_applied(&self) -> bool {
        self.failure.maybe_applied()
    }

    /// Whether the server refused because its memory is full.
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.failure, Failure::Refused(error) if error.code() == Some(FULL))
    }

    /// The meaning while a store is opened.
    pub(crate) fn into_open_error(self) -> OpenError {
        let Self { failure, server } = self;
        let unreachable = |what: String| OpenError::Unreachable { server: server.clone(), what };
        match failure {
            Failure::NotSent(error) => error,
            Failure::Broken(error) | Failure::Unconfirmed(error) => unreachable(error.to_string()),
            Failure::Timeout | Failure::QueueFull => unreachable("no answer".to_owned()),
            Failure::Refused(error) => OpenError::answered(server, &error),
            Failure::FewReplicas { have } => unreachable(format!("it has {have} replicas")),
        }
    }

    pub(crate) fn into_store_error(self, verb: &str, options: &Options) -> StoreError {
        let Self { failure, server } = self;
        match failure {
            Failure::NotSent(error) => error.into(),
            Failure::Broken(error) => StoreError::TimedOut {
                what: format!("{verb}: the connection to {server} broke: {error}"),
                source: Some(Box::new(error)),
            },
            Failure::Timeout => {
                StoreError::deadline(&format!("{verb} at {server}"), options.verb_timeout)
            }
            Failure::QueueFull => StoreError::unavailable(format!(
                "{verb}: too many calls wait for {server} already, so this one was not sent; is it \
                 overloaded?"
            )),
            Failure::Refused(error) => refused(verb, &server, error, options),
            Failure::Unconfirmed(error) => StoreError::TimedOut {
                what: format!("{verb}: {server} does not say which replicas have it: {error}"),
                source: Some(Box::new(error)),
            },
            Failure::FewReplicas { have } => StoreError::TimedOut {
                what: format!(
                    "{verb}: {have} of {} replicas of {server} are known to have it",
                    options.wait_replicas
                ),
                source: None,
            },
        }
    }
}

/// The meaning of a server's error. It has changed nothing.
fn refused(verb: &str, server: &str, error: RedisError, options: &Options) -> StoreError {
    let what = format!("{verb}: {server}: {error}");
    match (error.kind(), error.code()) {
        _ if is_forbidden(&error) => StoreError::Misconfigured {
            what: OpenError::Forbidden { server: server.to_owned(), what: error.to_string() }
                .to_string(),
        },
        // The server of a cluster was addressed as a single server.
        (ErrorKind::Server(ServerErrorKind::Moved), _) if !options.is_cluster() => {
            let error = OpenError::IsCluster { server: server.to_owned() };
            StoreError::Misconfigured { what: error.to_string() }
        }
        (_, Some("WRONGTYPE")) => StoreError::Corrupt {
            what: format!("{what}; another program uses the same keys: choose another prefix"),
        },
        // The server responds and serves its records: other verbs are not affected.
        (_, Some(FULL)) => StoreError::Declined {
            what: format!(
                "{what}; its memory is full, and no new key is taken until there is room: raise \
                 maxmemory, or shorten ttl"
            ),
            source: Some(Box::new(error)),
        },
        (_, Some("SEMELVERSION")) => {
            let damage = Damage::Version { found: reported_number(&error).unwrap_or_default() };
            StoreError::Corrupt { what: format!("{server}: a record cannot be read: {damage}") }
        }
        (_, Some("SEMELSHORT")) => {
            let damage = Damage::Short { len: reported_number(&error).unwrap_or_default() };
            StoreError::Corrupt { what: format!("{server}: a record cannot be read: {damage}") }
        }
        _ => StoreError::Unavailable { what, source: Some(Box::new(error)) },
    }
}

/// Whether our user lacks a right. The server has an error code for that, but not for a right missing
/// inside a script; and the driver has none where a database is selected.
fn is_forbidden(error: &RedisError) -> bool {
    let text = error.to_string();
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || ["no permissions", "ACL failure", "The user executing the script"]
            .iter()
            .any(|part| text.contains(part))
}

/// The number in a script's error. The server appends the position in the script.
fn reported_number<N: std::str::FromStr>(error: &RedisError) -> Option<N> {
    error.detail()?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn corrupt(id: RecordId, damage: &Damage) -> StoreError {
    StoreError::Corrupt { what: format!("record {} cannot be read: {damage}", id.prefix()) }
}
