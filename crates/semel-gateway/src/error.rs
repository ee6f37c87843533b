use std::io;
use std::net::SocketAddr;

use crate::server::tls::TlsError;

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be served on.
    #[error("cannot listen on {address}: {source}; choose another address, or stop who uses it")]
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
    /// The upstream's name cannot be used.
    #[error("`{0}` is not the name of a server")]
    ServerName(String),
    /// The machine gives no more threads or sockets.
    #[error("no thread could be started: {0}")]
    Thread(io::Error),
}
