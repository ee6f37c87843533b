//! TLS, in and out.

mod stream;

pub use semel_tls::TlsError;
pub(crate) use stream::MaybeTls;

use std::path::Path;
use std::sync::Arc;

use semel_tls::{TlsOptions, server_config};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// For connections of clients: HTTP/2 if the client offers it, else HTTP/1.1.
pub(crate) fn acceptor(certificate: &Path, key: &Path) -> Result<TlsAcceptor, TlsError> {
    let config = server_config(certificate, key, &[b"h2", b"http/1.1"])?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// For connections to servers: trusts the certificates in `ca`, or else the machine's roots.
pub(crate) fn connector(ca: Option<&Path>) -> Result<TlsConnector, TlsError> {
    let mut config = TlsOptions::verified(ca).client_config()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(TlsConnector::from(Arc::new(config)))
}
