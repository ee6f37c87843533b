//! Certificates and keys, from files and from the machine.

use std::path::Path;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::RootCertStore;

use crate::TlsError;

/// The authorities in a file, or else those of the machine.
pub(crate) fn roots(file: Option<&Path>) -> Result<RootCertStore, TlsError> {
    let found = match file {
        Some(file) => certificates(file)?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    let mut roots = RootCertStore::empty();
    // One that is of an unsupported kind does not disable the others: bundles have many.
    roots.add_parsable_certificates(found);
    match file {
        _ if !roots.is_empty() => Ok(roots),
        Some(file) => Err(TlsError::NoAuthority(file.to_owned())),
        None => Err(TlsError::NoRoots),
    }
}

/// A chain of at least one certificate.
pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(file)
        .and_then(Iterator::collect)
        .map_err(|source| TlsError::File { path: file.to_owned(), source })?;
    if chain.is_empty() { Err(TlsError::NoCertificate(file.to_owned())) } else { Ok(chain) }
}

pub(crate) fn key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(file)
        .map_err(|source| TlsError::File { path: file.to_owned(), source })
}
