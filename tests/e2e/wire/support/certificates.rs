//! An authority of the tests' own, and what it certifies.

use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use semel_testkit::{After, Line, Seen, Upstream};
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};

pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

// === impl Authority ===

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Self { issuer: CertifiedIssuer::self_signed(params, key).unwrap() }
    }

    /// A certificate for `name` and its key, as PEM.
    fn certify(&self, name: &str) -> (rcgen::Certificate, KeyPair) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        (params.signed_by(&key, &self.issuer).unwrap(), key)
    }

    /// Writes `certificate.pem` and `key.pem` for `name`; returns the certificate.
    pub(crate) fn write(&self, directory: &Path, name: &str) -> Vec<u8> {
        let (certificate, key) = self.certify(name);
        fs::write(directory.join("certificate.pem"), certificate.pem()).unwrap();
        fs::write(directory.join("key.pem"), key.serialize_pem()).unwrap();
        certificate.der().to_vec()
    }

    /// Writes `ca.pem`.
    pub(crate) fn write_ca(&self, directory: &Path) {
        fs::write(directory.join("ca.pem"), self.issuer.pem()).unwrap();
    }

    pub(crate) fn server_config(&self, name: &str, protocols: &[&[u8]]) -> Arc<ServerConfig> {
        let (certificate, key) = self.certify(name);
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.der().clone()], key)
                .unwrap();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    pub(crate) fn client_config(&self, protocols: &[&[u8]]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let mut config =
            ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots)
                .with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    }

    /// A client that asks for `localhost`.
    pub(crate) fn client(&self, socket: TcpStream) -> StreamOwned<ClientConnection, TcpStream> {
        let name = ServerName::try_from("localhost").unwrap();
        let config = self.client_config(&[b"http/1.1"]);
        StreamOwned::new(ClientConnection::new(config, name).unwrap(), socket)
    }

    /// An upstream with TLS that answers every request with what it was.
    pub(crate) fn upstream(&self, name: &str) -> Upstream {
        self.upstream_with(name, Seen::echo)
    }

    pub(crate) fn upstream_with(
        &self,
        name: &str,
        handler: impl Fn(&Seen, &mut Line) -> io::Result<After> + Send + Sync + 'static,
    ) -> Upstream {
        let config = self.server_config(name, &[b"http/1.1"]);
        let open = move |socket| Ok(Line::over(Box::new(Self::serve(&config, &socket)?), socket));
        Upstream::over(open, handler)
    }

    /// The server's side of a handshake.
    fn serve(
        config: &Arc<ServerConfig>,
        socket: &TcpStream,
    ) -> io::Result<StreamOwned<ServerConnection, TcpStream>> {
        let connection = ServerConnection::new(config.clone()).map_err(io::Error::other)?;
        let mut io = StreamOwned::new(connection, socket.try_clone()?);
        while io.conn.is_handshaking() {
            io.conn.complete_io(&mut io.sock)?;
        }
        Ok(io)
    }
}
