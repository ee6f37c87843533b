//! TLS to the servers that keep records: what an address says of it, as a configuration of rustls.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::client::WantsClientCert;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::{
    ClientConfig, ConfigBuilder, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

/// How far a server is trusted, and who we are to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trust {
    /// Is the server's certificate verified, with its name?
    pub verified: bool,
    /// Who may have signed it; the system's authorities if none is named.
    pub root: Option<PathBuf>,
    /// Our own certificate and key, if the server asks for one.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Why TLS cannot be set up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TlsError(String);

// === impl Trust ===

impl Trust {
    /// How to speak TLS on these terms.
    pub fn client_config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .map_err(tls)?;
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
        let Some((certificate, key)) = &self.identity else {
            return Ok(builder.with_no_client_auth());
        };
        let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable(key, &error))?;
        builder.with_client_auth_cert(certificates(certificate)?, key).map_err(tls)
    }
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    let found = match file {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    roots.add_parsable_certificates(found);
    if roots.is_empty() {
        let what = "no certificate authority is known here; name one with sslrootcert=FILE";
        return Err(TlsError(what.to_owned()));
    }
    Ok(roots)
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &dyn std::fmt::Display) -> TlsError {
    TlsError(format!("{} cannot be read: {error}", file.display()))
}

#[expect(clippy::needless_pass_by_value, reason = "as map_err hands it over")]
fn tls(error: Error) -> TlsError {
    TlsError(error.to_string())
}

/// Encrypts without asking who the server is, as libpq does with `sslmode=prefer` and
/// `sslmode=require`: it keeps listeners out, not impostors.
#[derive(Debug)]
struct AnyServer(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, schemes)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let schemes = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, schemes)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
