//! TLS to the server.

use crate::OpenError;
use crate::url::TlsChoice;

#[cfg(feature = "tls")]
pub(crate) type Connector = tokio_postgres_rustls::MakeRustlsConnect;
#[cfg(not(feature = "tls"))]
pub(crate) type Connector = tokio_postgres::NoTls;

/// The TLS connector, as configured by the address.
#[cfg(feature = "tls")]
pub(crate) fn connector(choice: &TlsChoice) -> Result<Connector, OpenError> {
    let TlsChoice { verified, root, identity } = choice.clone();
    let config = semel_tls::TlsOptions { verified, root, identity }.client_config();
    let config = config.map_err(|error| OpenError::Tls { what: error.to_string() })?;
    Ok(Connector::new(config))
}

#[cfg(not(feature = "tls"))]
pub(crate) fn connector(choice: &TlsChoice) -> Result<Connector, OpenError> {
    if *choice == TlsChoice::default() {
        return Ok(tokio_postgres::NoTls);
    }
    Err(OpenError::Tls {
        what: "this build has no TLS; build it with the feature `tls`".to_owned(),
    })
}
