//! The one place where what went wrong in the gateway becomes a problem: code, text and headers.

use std::error::Error as _;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use semel_http::OutcomeKind;
use semel_http::problem::{Code, Problem};

use crate::client::ClientError;

/// Why the gateway answers in place of the upstream. Its text is the problem's `detail`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Two servers could read the request in two ways.
    #[error("{0}")]
    Ambiguous(&'static str),
    #[error("the path leads out of the base path of the upstream")]
    OutsideBase,
    /// A limit of the gateway itself is reached.
    #[error("{0}; nothing was executed")]
    Busy(Busy),
    /// The upstream has certainly not received the request.
    #[error("the upstream cannot be reached; nothing was executed")]
    NotSent(String),
    /// The same of a request for a tunnel.
    #[error("the upstream did not answer")]
    NoTunnel(String),
    /// The upstream may have received the request.
    #[error(
        "the connection to the upstream was lost after the request went out; it may or may not have \
         been executed"
    )]
    Lost(hyper::Error),
    /// The client did not send all of the body. The upstream may have received a part of it.
    #[error("the body ended before it was complete")]
    BodyBroken,
    #[error("the body took too long to come")]
    BodyTimedOut,
    /// The upstream took too long, and may have executed the request.
    #[error(
        "the upstream did not answer within {limit:?}; the request may or may not have been executed"
    )]
    Late { limit: Duration },
    /// The upstream switched protocols without a request to do so.
    #[error(
        "the upstream answered with a protocol that was not asked for; the request may or may not \
         have been executed"
    )]
    Switched,
    /// The reply to a request for a tunnel, which is not switching protocols, is incomplete or too long.
    #[error("the upstream broke off")]
    ReplyBroken,
}

/// The limit of the gateway that is reached.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub(crate) enum Busy {
    #[error("too many connections")]
    Connections,
    #[error("{max} requests of this connection are in work")]
    Connection { max: u32 },
    #[error(
        "{count} requests are in work whose clients, of the same address, have closed their connections"
    )]
    Address { count: u32 },
    #[error("all {max} connections to the upstream are in use")]
    UpstreamConnections { max: usize },
    #[error("the gateway has no file descriptor, memory or local port left")]
    Descriptors,
}

// === impl Failure ===

impl Failure {
    /// The failure of an exchange after its request went out, which may be its client's fault.
    pub(crate) fn lost(error: hyper::Error) -> Self {
        let mut cause = error.source();
        while let Some(error) = cause {
            match error.downcast_ref() {
                Some(ClientError::<hyper::Error>::TimedOut(_)) => return Self::BodyTimedOut,
                Some(ClientError::Broken(_)) => return Self::BodyBroken,
                None => cause = error.source(),
            }
        }
        Self::Lost(error)
    }

    /// The response in place of the upstream's. `is_retry_safe` says whether the client may send again what may have
    /// been executed.
    pub(crate) fn response<B: From<Bytes>>(&self, is_retry_safe: bool) -> Response<B> {
        let (code, kind) = self.row();
        let mut problem = Problem::new(code, self.to_string());
        if kind == OutcomeKind::Unknown {
            problem = problem.retry_safe(is_retry_safe);
        }
        if code == Code::TooBusy {
            problem = problem.with_retry_after(1);
        }
        let mut response = problem.into_response();
        response.extensions_mut().insert(kind);
        response
    }

    /// Its code, and whether the work may have happened.
    const fn row(&self) -> (Code, OutcomeKind) {
        use OutcomeKind::{FailedForNow, Unknown};
        match self {
            Self::Ambiguous(_) | Self::OutsideBase => (Code::RequestRefused, FailedForNow),
            Self::Busy(_) => (Code::TooBusy, FailedForNow),
            Self::NotSent(_) | Self::NoTunnel(_) => (Code::UpstreamUnreachable, FailedForNow),
            Self::Lost(_) | Self::Switched | Self::ReplyBroken => {
                (Code::UpstreamUnreachable, Unknown)
            }
            Self::BodyBroken => (Code::RequestBodyBroken, Unknown),
            Self::BodyTimedOut => (Code::RequestTimeout, Unknown),
            Self::Late { .. } => (Code::UpstreamTimeout, Unknown),
        }
    }
}
