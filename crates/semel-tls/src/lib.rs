//! TLS for all of Semel: to the servers that keep records, to the upstream, and for clients of the gateway. All of it is
//! a configuration of rustls, from files in PEM.

mod any_server;
mod files;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::{self, ClientConfig, ConfigBuilder, ServerConfig};

use crate::any_server::AnyServer;
use crate::files::{certificates, key, roots};

/// How a client verifies its server, and identifies itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Whether the server's certificate is verified, with its name.
    pub verified: bool,
    /// A file with the trusted authorities; those of the system if there is none.
    pub root: Option<PathBuf>,
    /// The files of this client's certificate and key, for a server that requires them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{path}: {source}; it must be a PEM file that this user may read")]
    File {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rustls_pki_types::pem::Error,
    },
    /// The file has no certificate.
    #[error("{0} has no certificate; it must be a PEM file with the whole chain")]
    NoCertificate(PathBuf),
    /// No certificate of the file can be used as an authority.
    #[error(
        "{0} has no certificate that can be used as an authority; it must be a PEM file of X.509 certificates"
    )]
    NoAuthority(PathBuf),
    /// Certificate and key do not fit, or are of a kind that is not supported.
    #[error("the certificate and its key cannot be used: {0}")]
    Unusable(#[from] rustls::Error),
    /// The machine has no authorities of its own.
    #[error(
        "no root certificates were found on this machine; install ca-certificates, or name a file of \
         authorities (ca, or sslrootcert of an address)"
    )]
    NoRoots,
}

/// The configuration of a server with this certificate, for the protocols that it offers, in its order of preference.
pub fn server_config(
    certificate: &Path,
    key_file: &Path,
    protocols: &[&[u8]],
) -> Result<ServerConfig, TlsError> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(certificates(certificate)?, key(key_file)?)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(config)
}

// === impl TlsOptions ===

impl TlsOptions {
    /// Verifies the server by these authorities, or by those of the machine.
    pub fn verified(root: Option<&Path>) -> Self {
        Self { verified: true, root: root.map(Path::to_owned), identity: None }
    }

    /// The configuration of a client.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()?;
        let builder = if self.verified {
            builder.with_root_certificates(roots(self.root.as_deref())?)
        } else {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer(provider)))
        };
        self.identified(builder)
    }

    fn identified(
        &self,
        builder: ConfigBuilder<ClientConfig, WantsClientCert>,
    ) -> Result<ClientConfig, TlsError> {
        match &self.identity {
            None => Ok(builder.with_no_client_auth()),
            Some((certificate, key_file)) => {
                Ok(builder.with_client_auth_cert(certificates(certificate)?, key(key_file)?)?)
            }
        }
    }
}
