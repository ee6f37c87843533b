//! The bearer token of a request, as far as its route asks for one.

use http::header::{self, HeaderMap};

use super::ScopeMissing;
use crate::policy::{JwtUnverified, RoutePolicy};
use crate::token::{TokenRefused, VerifiedToken, VerifyToken};

/// What is known about the bearer token of a request.
#[derive(Debug)]
pub(crate) enum Token {
    /// Its claims are read as they stand, if there is one.
    Unverified,
    /// The request has none.
    Absent,
    Verified(VerifiedToken),
}

/// The token of a request, if the scope of its route has a claim. Waits for newer keys if they could
/// make a difference.
pub(crate) async fn token(
    headers: &HeaderMap,
    policy: &RoutePolicy,
    verifier: Option<&dyn VerifyToken>,
) -> Result<Token, ScopeMissing> {
    let refused = match token_now(headers, policy, verifier) {
        Err(ScopeMissing::Token(refused)) if refused.may_be_cured() => refused,
        known => return known,
    };
    match verifier {
        Some(verifier) => verifier.renew().await,
        None => return Err(refused.into()),
    }
    token_now(headers, policy, verifier)
}

/// The same without waiting.
pub(crate) fn token_now(
    headers: &HeaderMap,
    policy: &RoutePolicy,
    verifier: Option<&dyn VerifyToken>,
) -> Result<Token, ScopeMissing> {
    if !policy.reads_tokens() {
        return Ok(Token::Unverified);
    }
    let Some(verifier) = verifier else {
        return match policy.jwt_unverified {
            JwtUnverified::Refuse => Err(ScopeMissing::Unverified),
            JwtUnverified::Warn | JwtUnverified::BehindAVerifier => Ok(Token::Unverified),
        };
    };
    let Some(token) = bearer(headers)? else { return Ok(Token::Absent) };
    Ok(Token::Verified(verifier.verify(token)?))
}

/// The token in `Authorization`. Whatever else is there must not count as no identity: its client
/// would share a scope with all clients without one.
pub(super) fn bearer(headers: &HeaderMap) -> Result<Option<&str>, TokenRefused> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(TokenRefused::Repeated);
    }
    if value.is_empty() {
        return Ok(None);
    }
    let text = value.to_str().map_err(|_| TokenRefused::NotBearer)?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.trim())),
        _ => Err(TokenRefused::NotBearer),
    }
}
