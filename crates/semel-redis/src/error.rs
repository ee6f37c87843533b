//! What can go wrong, and what it means to whoever asked.

use std::time::Duration;

use redis::{ErrorKind, RedisError, ServerErrorKind};
use semel_core::RecordId;
use semel_store::StoreError;

use crate::Options;
use crate::url::Endpoint;
use crate::value::Damage;

/// Why a store could not be opened. Each says what to do; none shows a password.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Nobody answers there.
    #[error("{server} cannot be reached: {what}; is the server up, and is the address right?")]
    Unreachable {
        /// The address.
        server: String,
        /// What the connection said.
        what: String,
    },
    /// The server does not let us in.
    #[error(
        "{server} refuses us: {what}; check user and password (in the address, or the password in \
         REDISCLI_AUTH)"
    )]
    Refused {
        /// The address.
        server: String,
        /// What the server said.
        what: String,
    },
    /// The server has as many clients as it takes.
    #[error(
        "{server} takes no more connections: {what}; raise maxclients on it, or have fewer clients: \
         pool_max in the address, times the gateways"
    )]
    Full {
        /// The address.
        server: String,
        /// What the server said.
        what: String,
    },
    /// The server lets us in, but not do what a store does.
    #[error(
        "{server}: {what}; let its administrator run: ACL SETUSER USER ~PREFIX* &PREFIX* +evalsha +eval \
         +script|load +time +get +getrange +set +pexpireat +spublish +ssubscribe +sunsubscribe +wait \
         +info +config|get +cluster|slots +asking +select +ping"
    )]
    Forbidden {
        /// The address.
        server: String,
        /// What the server said.
        what: String,
    },
    /// Too many verbs wait for replicas.
    #[error(
        "{server}: {max} verbs wait for replicas already, and this is the limit; are the replicas up?"
    )]
    Busy {
        /// The address.
        server: String,
        /// How many.
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
        /// What the server said.
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
        /// What they said.
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
    /// The server would lose what it was given, and that is not to be.
    #[error("{server} is not durable enough: {what}")]
    NotDurable {
        /// The address.
        server: String,
        /// Which settings, and the cures.
        what: String,
    },
    /// TLS could not be set up.
    #[error("TLS: {what}")]
    Tls {
        /// What is wrong.
        what: String,
    },
    /// The server said something else.
    #[error("{server} answers: {what}")]
    Server {
        /// The address.
        server: String,
        /// What it said.
        what: String,
    },
}

/// The server's word for a memory that is full.
const FULL: &str = "OOM";

// === impl OpenError ===

impl OpenError {
    /// The server says nothing.
    pub(crate) fn silent(server: &Endpoint, limit: Duration) -> Self {
        let what = format!("no answer within {limit:?}");
        Self::Unreachable { server: server.to_string(), what }
    }

    pub(crate) fn io(server: &Endpoint, error: &std::io::Error) -> Self {
        Self::Unreachable { server: server.to_string(), what: error.to_string() }
    }

    /// What a server answered that was asked something while a connection was made.
    pub(crate) fn said(server: &Endpoint, error: &RedisError) -> Self {
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

/// What it means to whoever uses the store while it runs: nothing was asked yet, so nothing took
/// effect.
impl From<OpenError> for StoreError {
    fn from(error: OpenError) -> Self {
        let what = error.to_string();
        match error {
            // These do not pass by themselves.
            OpenError::Forbidden { .. }
            | OpenError::IsCluster { .. }
            | OpenError::NoCluster { .. }
            | OpenError::TooOld { .. }
            | OpenError::NotDurable { .. } => Self::Misconfigured { what },
            // A server that restarts, or a handshake that was broken off, may look like these.
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

/// Why a server did not do as it was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There was no connection to ask on: nothing took effect.
    Unasked(OpenError),
    /// The connection broke after the question was sent: it may have taken effect.
    Broken(RedisError),
    /// Too many others wait for their answers, so it was not asked: nothing took effect.
    Crowded,
    /// The answer did not come in time: it may have taken effect.
    Silent,
    /// The server answered that it will not: nothing took effect.
    Refused(RedisError),
    /// It took effect, but too few replicas are known to have it.
    FewReplicas { have: u32 },
    /// It took effect, but nobody says who has it.
    Unconfirmed(RedisError),
}

// === impl Failure ===

impl Failure {
    pub(crate) fn of(error: RedisError) -> Self {
        match error.kind() {
            ErrorKind::Server(_) | ErrorKind::Extension => Self::Refused(error),
            // Whatever else it is, it was not the server's answer to this.
            _ => Self::Broken(error),
        }
    }

    pub(crate) fn maybe_applied(&self) -> bool {
        match self {
            Self::Broken(_) | Self::Silent | Self::FewReplicas { .. } | Self::Unconfirmed(_) => {
                true
            }
            Self::Unasked(_) | Self::Crowded | Self::Refused(_) => false,
        }
    }

    /// May another server be in charge by now?
    pub(crate) fn is_out_of_place(&self) -> bool {
        match self {
            // One that is made a replica answers nobody who waits.
            Self::Unasked(_)
            | Self::Broken(_)
            | Self::Crowded
            | Self::Silent
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

/// A verb that was not done, as far as is known.
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

    /// Did the server refuse because its memory is full?
    pub(crate) fn is_full(&self) -> bool {
        matches!(&self.failure, Failure::Refused(error) if error.code() == Some(FULL))
    }

    /// What it means to whoever opens a store.
    pub(crate) fn into_open_error(self) -> OpenError {
        let Self { failure, server } = self;
        let silent = |what: String| OpenError::Unreachable { server: server.clone(), what };
        match failure {
            Failure::Unasked(error) => error,
            Failure::Broken(error) | Failure::Unconfirmed(error) => silent(error.to_string()),
            Failure::Silent | Failure::Crowded => silent("no answer".to_owned()),
            Failure::Refused(error) => OpenError::answered(server, &error),
            Failure::FewReplicas { have } => silent(format!("it has {have} replicas")),
        }
    }

    pub(crate) fn into_store_error(self, verb: &str, options: &Options) -> StoreError {
        let Self { failure, server } = self;
        match failure {
            Failure::Unasked(error) => error.into(),
            Failure::Broken(error) => StoreError::TimedOut {
                what: format!("{verb}: the connection to {server} broke: {error}"),
                source: Some(Box::new(error)),
            },
            Failure::Silent => {
                StoreError::deadline(&format!("{verb} at {server}"), options.verb_timeout)
            }
            Failure::Crowded => StoreError::unavailable(format!(
                "{verb}: too many wait for answers of {server} already, so it was not asked; is it \
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

/// What a server's refusal means. It has changed nothing.
fn refused(verb: &str, server: &str, error: RedisError, options: &Options) -> StoreError {
    let what = format!("{verb}: {server}: {error}");
    match (error.kind(), error.code()) {
        _ if is_forbidden(&error) => StoreError::Misconfigured {
            what: OpenError::Forbidden { server: server.to_owned(), what: error.to_string() }
                .to_string(),
        },
        // Of one server, a cluster's: the address is the wrong one.
        (ErrorKind::Server(ServerErrorKind::Moved), _) if !options.is_cluster() => {
            let error = OpenError::IsCluster { server: server.to_owned() };
            StoreError::Misconfigured { what: error.to_string() }
        }
        (_, Some("WRONGTYPE")) => StoreError::Corrupt {
            what: format!("{what}; another program uses the same keys: choose another prefix"),
        },
        // It answers, and serves what it has: this is nobody else's trouble.
        (_, Some(FULL)) => StoreError::Declined {
            what: format!(
                "{what}; its memory is full, and no new key is taken until there is room: raise \
                 maxmemory, or shorten ttl"
            ),
            source: Some(Box::new(error)),
        },
        (_, Some("SEMELVERSION")) => {
            let damage = Damage::Version { found: said(&error).unwrap_or_default() };
            StoreError::Corrupt { what: format!("{server}: a record cannot be read: {damage}") }
        }
        (_, Some("SEMELSHORT")) => {
            let damage = Damage::Short { len: said(&error).unwrap_or_default() };
            StoreError::Corrupt { what: format!("{server}: a record cannot be read: {damage}") }
        }
        _ => StoreError::Unavailable { what, source: Some(Box::new(error)) },
    }
}

/// Lacks our user a right? The server has a word of its own for that, but not where a script lacks one,
/// and the driver not where a database is chosen.
fn is_forbidden(error: &RedisError) -> bool {
    let text = error.to_string();
    error.kind() == ErrorKind::Server(ServerErrorKind::NoPerm)
        || ["no permissions", "ACL failure", "The user executing the script"]
            .iter()
            .any(|part| text.contains(part))
}

/// The number that a script said with an error. The server adds where in the script that was.
fn said<N: std::str::FromStr>(error: &RedisError) -> Option<N> {
    error.detail()?.split_whitespace().next()?.parse().ok()
}

pub(crate) fn corrupt(id: RecordId, damage: &Damage) -> StoreError {
    StoreError::Corrupt { what: format!("record {} cannot be read: {damage}", id.prefix()) }
}
