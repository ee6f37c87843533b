use std::io;
use std::net::SocketAddr;

use semel_http::jwt::TokenRulesError;

use crate::tls::TlsError;
use crate::tokens::{self, KeysFault};

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be served on.
    #[error(
        "cannot listen on {address}: {source}; choose another address, or stop the process that uses it"
    )]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] semel_embedded::OpenError),
    /// The store on PostgreSQL cannot be opened.
    #[cfg(feature = "postgres")]
    #[error("the store cannot be opened: {0}")]
    Postgres(#[from] semel_postgres::OpenError),
    /// The store on Redis cannot be opened.
    #[cfg(feature = "redis")]
    #[error("the store cannot be opened: {0}")]
    Redis(#[from] semel_redis::OpenError),
    /// Certificates are missing or wrong.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The keys of tokens cannot be read.
    #[error(transparent)]
    Keys(#[from] KeysFault),
    /// Tokens cannot be judged by such rules.
    #[error("tokens cannot be verified: {0}")]
    TokenRules(#[from] TokenRulesError),
    /// The upstream's name cannot be used.
    #[error("`{0}` is not the name of a server")]
    ServerName(String),
    /// The routes of a reload need a store that is opened by a restart only.
    #[error(
        "`preset` is \"payments\", and the store that is open is \"memory:\", which forgets everything; \
         restart the gateway to open the store of the configuration"
    )]
    VolatilePayments,
    /// The machine gives no more threads or sockets.
    #[error("no thread could be started: {0}")]
    Thread(io::Error),
}

// === impl StartError ===

impl From<tokens::OpenError> for StartError {
    fn from(error: tokens::OpenError) -> Self {
        match error {
            tokens::OpenError::Rules(error) => Self::TokenRules(error),
            tokens::OpenError::Keys(fault) => Self::Keys(fault),
            tokens::OpenError::Tls(error) => Self::Tls(error),
        }
    }
}
