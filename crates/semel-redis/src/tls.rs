//! TLS to the servers.

use crate::OpenError;
use crate::url::TlsChoice;

#[cfg(feature = "tls")]
pub(crate) use with_rustls::Secure;

/// There is no such thing in this build.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Debug)]
pub(crate) enum Secure {}

// === impl Secure ===

#[cfg(not(feature = "tls"))]
impl Secure {
    pub(crate) fn new(_: &TlsChoice) -> Result<Self, OpenError> {
        let what = "this build has no TLS; build it with the feature `tls`".to_owned();
        Err(OpenError::Tls { what })
    }

    #[expect(clippy::unused_async, reason = "as where there is TLS")]
    pub(crate) async fn wrap<S>(&self, _: &str, _: S) -> Result<S, OpenError> {
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

    use super::{OpenError, TlsChoice};

    /// How to speak TLS.
    #[derive(Clone)]
    pub(crate) struct Secure(TlsConnector);

    impl Secure {
        /// By what the address says. The server's certificate is always verified, with its name.
        pub(crate) fn new(choice: &TlsChoice) -> Result<Self, OpenError> {
            let TlsChoice { root, identity } = choice.clone();
            let trust = semel_tls::Trust { verified: true, root, identity };
            let config = trust.client_config();
            let config = config.map_err(|error| OpenError::Tls { what: error.to_string() })?;
            Ok(Self(Arc::new(config).into()))
        }

        /// Speaks TLS over a connection to this host.
        pub(crate) async fn wrap<S: AsyncRead + AsyncWrite + Unpin>(
            &self,
            host: &str,
            stream: S,
        ) -> Result<TlsStream<S>, OpenError> {
            let failed = |what: String| OpenError::Tls { what: format!("{host}: {what}") };
            let name = ServerName::try_from(host.to_owned());
            let name = name.map_err(|_| failed("this is not the name of a server".to_owned()))?;
            self.0.connect(name, stream).await.map_err(|error| failed(error.to_string()))
        }
    }

    impl fmt::Debug for Secure {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Secure").finish_non_exhaustive()
        }
    }
}
