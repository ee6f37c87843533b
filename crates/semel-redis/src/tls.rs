//! TLS to the servers.

use crate::url::TlsChoice;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::TlsClient;

/// Not available in this build.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(crate) enum TlsClient {}

// === impl TlsClient ===

#[cfg(not(feature = "tls"))]
impl TlsClient {
    pub(crate) fn new(_: &TlsChoice) -> Result<Self, String> {
        Err("this build has no TLS; build it with the feature `tls`".to_owned())
    }

    #[expect(clippy::unused_async, reason = "as where there is TLS")]
    pub(crate) async fn wrap<S>(&self, _: &str, _: S) -> Result<S, String> {
        match *self {}
    }
}

#[cfg(feature = "tls")]
mod with_rustls {
    use std::fmt;
    use std::sync::Arc;

    use tokio::io::{AsyncRead, AsyncWrite};
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream;
    use tokio_rustls::rustls::pki_types::ServerName;

    use super::TlsChoice;

    /// A TLS client.
    #[derive(Clone)]
    pub(crate) struct TlsClient(TlsConnector);

    impl TlsClient {
        /// Configured by the address. The server's certificate and its name are always verified.
        pub(crate) fn new(choice: &TlsChoice) -> Result<Self, String> {
            let TlsChoice { root, identity } = choice.clone();
            let trust = semel_tls::TlsOptions { verified: true, root, identity };
            let config = trust.client_config().map_err(|error| error.to_string())?;
            Ok(Self(Arc::new(config).into()))
        }

        /// Starts TLS on a connection to this host.
        pub(crate) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
            &self,
            host: &str,
            stream: S,
        ) -> Result<TlsStream<S>, String> {
            let failed = |what: String| format!("{host}: {what}");
            let name = ServerName::try_from(host.to_owned());
            let name = name.map_err(|_| failed("this is not the name of a server".to_owned()))?;
            self.0.connect(name, stream).await.map_err(|error| failed(error.to_string()))
        }
    }

    impl fmt::Debug for TlsClient {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("TlsClient").finish_non_exhaustive()
        }
    }
}
