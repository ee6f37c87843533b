use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{self, HeaderMap, HeaderName};
use http::request::Parts;
use semel_core::Scope;
use semel_core::planted::{Bug, planted};
use semel_engine::{Quota, ScopeLimits};

use super::bearer::{Token, bearer};
use super::cookies::cookies;
use super::credentials;
use crate::base64url;
use crate::policy::{OnMissingScope, RoutePolicy};
use crate::source::{JwtClaim, ScopeSource};
use crate::token::{TokenRefused, identifying};

/// The address of the client, as an extension of the request. The gateway sets it; in an app of
/// your own, set it where you accept connections, if a route has the scope `client-ip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientIp(pub IpAddr);

/// Why it is not known whose request it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ScopeMissing {
    /// The route asks for an identity, and the request has none.
    #[error("this route needs a client identity, and the request has no {0}")]
    Absent(String),
    /// The request has a credential that the route's scope leaves out. Were it ignored, all clients
    /// with such credentials would be one.
    #[error(
        "the request identifies its client by the header {seen}, which the scope of this route \
         leaves out; nothing was executed. The operator of this gateway can cure it with \
         scope = {scope}"
    )]
    Uncovered { seen: String, scope: String },
    /// The token of the request is not to be believed. It is never taken for no identity.
    #[error("{0}; nothing was executed")]
    Token(#[from] TokenRefused),
    /// A client could write another's name into its token.
    #[error(
        "the scope of this route reads claims of tokens, and tokens are not verified here; nothing \
         was executed. The operator of this gateway can cure it with a table [jwt], or with \
         jwt_unverified = \"behind-a-verifier\" if something in front verifies them"
    )]
    Unverified,
}

/// The client of a request, with its method and route.
pub(crate) struct Identity<'a> {
    parts: Vec<(&'a str, Cow<'a, [u8]>)>,
    /// True if any of the parts identifies the client.
    is_known: bool,
}

/// Method and route come before what is said about the client.
const WHAT_FOR: usize = 2;

/// The namespace of the key (I7).
pub(crate) fn scope_of(
    request: &Parts,
    what: &str,
    policy: &RoutePolicy,
    token: &Token,
) -> Result<Scope, ScopeMissing> {
    Ok(identity_of(request, what, policy, token)?.scope())
}

/// The identity of a request: `what` is the route's pattern, or the path if no pattern matched.
pub(crate) fn identity_of<'a>(
    request: &'a Parts,
    what: &'a str,
    policy: &'a RoutePolicy,
    token: &'a Token,
) -> Result<Identity<'a>, ScopeMissing> {
    let mut parts: Vec<(&str, Cow<'_, [u8]>)> =
        Vec::with_capacity(WHAT_FOR + 2 * policy.scope.len());
    parts.push(("method", request.method.as_str().as_bytes().into()));
    parts.push(("route", what.as_bytes().into()));
    let mut is_known = false;
    // Sources that say nothing: those that must, and those of which one must.
    let (mut missing, mut alternative) = (None, None);
    let mut has_alternative = false;
    let sources = if planted(Bug::ScopeDropped) { &[] } else { &*policy.scope };
    for source in sources {
        let before = parts.len();
        add_identity(&mut parts, request, source, token)?;
        let is_alternative = credentials::is_alternative(source, sources);
        // A source with a value adds more than its name.
        if parts.len() > before + 1 {
            is_known |= *source != ScopeSource::Global;
            has_alternative |= is_alternative;
            continue;
        }
        if *source == ScopeSource::Auto {
            credentials::refuse_uncovered(&request.headers, sources)?;
        }
        // Distinguished from an empty value by its name.
        parts.push(("missing", Cow::Borrowed(&[])));
        if is_alternative { &mut alternative } else { &mut missing }.get_or_insert(source);
    }
    let missing = missing.or(alternative.filter(|_| !has_alternative));
    if policy.on_missing_scope == OnMissingScope::Reject
        && let Some(source) = missing
    {
        return Err(ScopeMissing::Absent(match source {
            ScopeSource::Auto => "Authorization header".to_owned(),
            source => source.to_string(),
        }));
    }
    Ok(Identity { parts, is_known })
}

// === impl Identity ===

impl Identity<'_> {
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.parts.iter().map(|(name, value)| (*name, value)))
    }

    /// What counts as one scope against limits: all that a client does on a route, whatever the path where no pattern
    /// matched. `None` if the client is unknown: one limit for all anonymous clients would let any of them
    /// exhaust it for the others.
    pub(crate) fn quota(&self, route: &str, limits: ScopeLimits) -> Option<Quota> {
        self.is_known.then(|| Quota::of((route, &self.parts[WHAT_FOR..]), limits))
    }
}

/// Adds the name of a source, and all that it says about the client.
fn add_identity<'a>(
    parts: &mut Vec<(&'a str, Cow<'a, [u8]>)>,
    request: &'a Parts,
    source: &'a ScopeSource,
    token: &'a Token,
) -> Result<(), TokenRefused> {
    match source {
        // The same parts, so that records survive the change from one to the other.
        ScopeSource::Auto => add_header(parts, &request.headers, &header::AUTHORIZATION),
        ScopeSource::Header(name) => add_header(parts, &request.headers, name),
        ScopeSource::Cookie(name) => {
            parts.push(("cookie", name.as_str().as_bytes().into()));
            let values = cookies(&request.headers, name);
            parts.extend(values.map(|value| ("value", value.into())));
        }
        ScopeSource::Jwt(claim) => {
            parts.push(("jwt", claim.name().as_bytes().into()));
            match token {
                Token::Verified(token) => {
                    // Another issuer's subject of the same name is another client.
                    parts.push(("issuer", token.issuer().as_bytes().into()));
                    parts.push(("value", token.claim(claim)?.into()));
                }
                Token::Unverified => {
                    let value = unverified(&request.headers, claim)?;
                    parts.extend(value.map(|value| ("value", value.into())));
                }
                Token::Absent => {}
            }
        }
        ScopeSource::ClientIp => {
            parts.push(("client-ip", Cow::Borrowed(&[])));
            let ip = request.extensions.get::<ClientIp>().map(|ip| ip.0.to_canonical());
            parts.extend(ip.map(|ip| ("value", ip.to_string().into_bytes().into())));
        }
        ScopeSource::Global => {
            parts.push(("global", Cow::Borrowed(&[])));
            parts.push(("value", Cow::Borrowed(&[])));
        }
    }
    Ok(())
}

fn add_header<'a>(
    parts: &mut Vec<(&'a str, Cow<'a, [u8]>)>,
    headers: &'a HeaderMap,
    name: &'a HeaderName,
) {
    parts.push(("header", name.as_str().as_bytes().into()));
    let values = headers.get_all(name).iter().filter(|value| !value.is_empty());
    parts.extend(values.map(|value| ("value", value.as_bytes().into())));
}

/// A claim of the bearer token, if the request has credentials. Nothing is verified here. Credentials
/// without the claim are refused: all of them would be one anonymous client.
fn unverified(headers: &HeaderMap, claim: &JwtClaim) -> Result<Option<Vec<u8>>, TokenRefused> {
    let Some(token) = bearer(headers)? else { return Ok(None) };
    let claims = claims(token).ok_or(TokenRefused::Malformed)?;
    identifying(&claims, claim).map(Some)
}

/// The claims of a token in compact form.
fn claims(token: &str) -> Option<Vec<u8>> {
    let mut parts = token.split('.');
    let (_header, payload, _signature) = (parts.next()?, parts.next()?, parts.next()?);
    base64url::decode(payload)
}
