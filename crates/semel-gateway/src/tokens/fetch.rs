//! One GET of a key set, within limits.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::source::KEYS_MAX;
use crate::config::KeysUrl;
use crate::tls::{self, MaybeTls, TlsError};

/// Why a key set could not be fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// The time limit, from the connection to the last byte.
    #[error("no answer within {}s; is it up, and may this machine connect to it?", FETCH_MAX.as_secs())]
    Late,
    /// No connection, or TLS failed on it.
    #[error("{0}; is it up, and does this machine trust its certificate (`ca` of [jwt])?")]
    Io(#[from] io::Error),
    /// The response was no HTTP, or was incomplete.
    #[error("{0}")]
    Http(#[from] hyper::Error),
    /// A redirect. It is not followed: it could lead to a server without TLS.
    #[error("it answered {0}; write the URL that it redirects to")]
    Redirected(StatusCode),
    /// Another status than 200.
    #[error("it answered {0}; is `keys` of [jwt] the URL of its JSON Web Key Set?")]
    Refused(StatusCode),
    /// A body that is too large or incomplete.
    #[error("its answer broke off or has more than {KEYS_MAX} bytes")]
    Body,
    /// The certificates to trust cannot be read.
    #[error("{0}")]
    Tls(#[from] TlsError),
    /// The host of the URL is not a valid name.
    #[error("`{0}` is not the name of a server")]
    Name(String),
}

/// The time limit of a fetch.
pub(super) const FETCH_MAX: Duration = Duration::from_secs(5);

/// Fetches the key set. Trusts the certificates in `ca`, or else the machine's roots.
pub(super) async fn fetch(url: &KeysUrl, ca: Option<PathBuf>) -> Result<Vec<u8>, FetchError> {
    timeout(FETCH_MAX, get(url, ca)).await.unwrap_or(Err(FetchError::Late))
}

async fn get(url: &KeysUrl, ca: Option<PathBuf>) -> Result<Vec<u8>, FetchError> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(open(url, ca).await?)).await?;
    // Aborted when this call ends, also if it is dropped.
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let response = sender.send_request(request(url)?).await?;
    match response.status() {
        StatusCode::OK => {}
        status if status.is_redirection() => return Err(FetchError::Redirected(status)),
        status => return Err(FetchError::Refused(status)),
    }
    let body = Limited::new(response.into_body(), KEYS_MAX).collect().await;
    Ok(body.map_err(|_| FetchError::Body)?.to_bytes().into())
}

async fn open(url: &KeysUrl, ca: Option<PathBuf>) -> Result<MaybeTls, FetchError> {
    let (host, port) = (url.server.host.as_str(), url.server.port);
    if !url.server.is_https() {
        return Ok(MaybeTls::Plain { stream: TcpStream::connect((host, port)).await? });
    }
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|_| FetchError::Name(host.to_owned()))?;
    // Reads files.
    let connector = tokio::task::spawn_blocking(move || tls::connector(ca.as_deref())).await;
    let connector = connector.map_err(io::Error::other)??;
    let stream = connector.connect(name, TcpStream::connect((host, port)).await?).await?;
    Ok(MaybeTls::Tls { stream: Box::new(stream.into()) })
}

fn request(url: &KeysUrl) -> Result<Request<Empty<Bytes>>, FetchError> {
    let authority = url.server.authority();
    let named = || FetchError::Name(authority.clone());
    let host = HeaderValue::try_from(&authority).map_err(|_| named())?;
    Request::get(&url.target)
        .header(header::HOST, host)
        .header(header::ACCEPT, "application/jwk-set+json, application/json")
        .header(header::ACCEPT_ENCODING, "identity")
        .body(Empty::new())
        .map_err(|_| named())
}
