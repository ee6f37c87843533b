//! Bearer tokens whose claims identify a client.

use std::fmt;
use std::pin::Pin;

use crate::json::{self, Scalar};
use crate::source::JwtClaim;

/// Verifies the bearer tokens of routes whose scope has `jwt:CLAIM`. With the feature `jwt` there is
/// a `TokenVerifier` for JSON Web Tokens; implement it yourself for tokens of another kind.
pub trait VerifyToken: fmt::Debug + Send + Sync + 'static {
    /// The claims of the token, if it is valid by the keys that are known now. It is called for
    /// each protected request of such a route, on the thread that serves it.
    fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRefused>;

    /// Looks for newer keys, after a refusal which [they could cure](TokenRefused::may_be_cured).
    /// The token is verified a second time after that.
    ///
    /// It is called for forged tokens too: the implementation bounds how often it looks and how
    /// long a request waits for it.
    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// A token that was verified.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifiedToken {
    issuer: Box<str>,
    claims: Box<[u8]>,
}

/// Why a token says nothing about its client. No variant has a part of the token.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRefused {
    /// Which of them counts is for the upstream to say.
    #[error("the request has more than one Authorization header")]
    Repeated,
    /// `Basic` and the like.
    #[error("the Authorization header is not of the form: Bearer TOKEN")]
    NotBearer,
    /// A limit on what is decoded.
    #[error("the token is longer than {max} bytes")]
    TooLong {
        /// The most bytes that are read.
        max: usize,
    },
    /// Not three parts in base64url, or header or claims are not an object of JSON.
    #[error("the token is not a JSON Web Token in compact form")]
    Malformed,
    /// `none` is never among those that are accepted.
    #[error("the token is signed by an algorithm that is not accepted here")]
    Algorithm,
    /// The issuer demands that a header is understood which is not.
    #[error("the token has the header crit, and no critical header is understood here")]
    Critical,
    /// The key may have been retired, or may be too new.
    #[error("the token is signed with a key that is not known here")]
    UnknownKey,
    /// It is forged, or was changed on its way.
    #[error("the signature of the token is wrong")]
    Signature,
    /// A token that never ends cannot be taken back.
    #[error("the token does not say when it expires (claim exp)")]
    NoExpiry,
    /// The client needs a new one.
    #[error("the token has expired (claim exp); get a new one and retry with the same key")]
    Expired,
    /// Too early, or a clock that is wrong.
    #[error("the token is not valid yet (claim nbf)")]
    NotYetValid,
    /// Another issuer's subjects are other clients.
    #[error("the token has another issuer than the one that is accepted here (claim iss)")]
    Issuer,
    /// It was meant for another service.
    #[error("the token is for another audience (claim aud)")]
    Audience,
    /// The claim of the scope.
    #[error("the token has no claim {0} that is a string or a number")]
    Claim(Box<str>),
    /// Nothing can be said about any token yet.
    #[error("the keys by which tokens are verified are not known yet")]
    NoKeys,
    /// A reason of a verifier of another kind.
    #[error("{0}")]
    Other(Box<str>),
}

// === impl VerifiedToken ===

impl VerifiedToken {
    /// A token of `issuer`, whose claims are a JSON object.
    pub fn new(issuer: &str, claims: impl Into<Box<[u8]>>) -> Self {
        Self { issuer: issuer.into(), claims: claims.into() }
    }

    /// Its issuer. Two clients may have the same subject at two issuers.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// A claim that identifies the client.
    pub(crate) fn claim(&self, claim: &JwtClaim) -> Result<Vec<u8>, TokenRefused> {
        identifying(&self.claims, claim)
    }
}

/// Without its claims.
impl fmt::Debug for VerifiedToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifiedToken({})", self.issuer)
    }
}

/// A string or number among claims, with its type. An empty string tells no client from another.
pub(crate) fn identifying(claims: &[u8], claim: &JwtClaim) -> Result<Vec<u8>, TokenRefused> {
    match json::find(claims, claim.pointer()) {
        Ok(Some(Scalar::String(text))) if !text.is_empty() => Ok([b"s:", text.as_bytes()].concat()),
        Ok(Some(Scalar::Number(token))) => Ok([b"n:", token.as_bytes()].concat()),
        Ok(_) | Err(_) => Err(TokenRefused::Claim(claim.name().into())),
    }
}

// === impl TokenRefused ===

impl TokenRefused {
    /// True if a newer key set could make the token valid.
    pub const fn may_be_cured(&self) -> bool {
        matches!(self, Self::UnknownKey | Self::NoKeys)
    }

    /// The reason in one word, for metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Repeated => "repeated",
            Self::NotBearer => "not_bearer",
            Self::TooLong { .. } => "too_long",
            Self::Malformed => "malformed",
            Self::Algorithm => "algorithm",
            Self::Critical => "critical",
            Self::UnknownKey => "unknown_key",
            Self::Signature => "signature",
            Self::NoExpiry => "no_expiry",
            Self::Expired => "expired",
            Self::NotYetValid => "not_yet_valid",
            Self::Issuer => "issuer",
            Self::Audience => "audience",
            Self::Claim(_) => "claim",
            Self::NoKeys => "no_keys",
            Self::Other(_) => "other",
        }
    }
}
