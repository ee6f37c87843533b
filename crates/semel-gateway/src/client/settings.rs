//! The settings of a client's connection.

use tokio_rustls::TlsAcceptor;

use super::{ClientTimeouts, LoadLimits};

/// The limits of a client's connection, and how TLS is accepted on it. A connection keeps the settings it began with.
#[derive(Clone)]
pub(crate) struct ConnectionSettings {
    pub(crate) timeouts: ClientTimeouts,
    pub(crate) max_header_bytes: usize,
    pub(crate) max_headers: usize,
    /// What one connection may have in work, and leave behind.
    pub(crate) load: LoadLimits,
    pub(crate) tls: Option<TlsAcceptor>,
}
