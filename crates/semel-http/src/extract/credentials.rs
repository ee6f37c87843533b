//! Credentials by which a request may identify its client.

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use super::ScopeMissing;
use crate::source::ScopeSource;

/// The headers besides `Authorization` that identify a client: those that clients send, and those in which
/// proxies that have asked them pass it on. In order.
static CREDENTIALS: [&str; 51] = [
    "access-token",
    "api-key",
    "api-token",
    "apikey",
    "auth-token",
    "cf-access-jwt-assertion",
    "client-cert",
    "cookie",
    "ocp-apim-subscription-key",
    "private-token",
    "proxy-authorization",
    "remote-user",
    "ssl-client-cert",
    "ssl-client-subject-dn",
    "tailscale-user-login",
    "x-access-token",
    "x-amzn-mtls-clientcert",
    "x-amzn-mtls-clientcert-leaf",
    "x-amzn-oidc-data",
    "x-amzn-oidc-identity",
    "x-api-key",
    "x-api-token",
    "x-apikey",
    "x-arr-clientcert",
    "x-auth-key",
    "x-auth-request-email",
    "x-auth-request-user",
    "x-auth-token",
    "x-authorization",
    "x-client-cert",
    "x-consumer-id",
    "x-forwarded-access-token",
    "x-forwarded-client-cert",
    "x-forwarded-email",
    "x-forwarded-user",
    "x-functions-key",
    "x-goog-api-key",
    "x-goog-authenticated-user-id",
    "x-goog-iap-jwt-assertion",
    "x-id-token",
    "x-ms-client-principal",
    "x-ms-client-principal-id",
    "x-remote-user",
    "x-session-id",
    "x-session-token",
    "x-shopify-access-token",
    "x-ssl-client-cert",
    "x-ssl-client-dn",
    "x-ssl-client-s-dn",
    "x-user-token",
    "x-vault-token",
];

/// It is an error if a request without `Authorization` has another credential that no source of the
/// scope covers.
pub(super) fn refuse_uncovered(
    headers: &HeaderMap,
    scope: &[ScopeSource],
) -> Result<(), ScopeMissing> {
    let is_uncovered = |name: &&HeaderName| {
        is_credential(name)
            && !headers.get_all(*name).iter().all(HeaderValue::is_empty)
            && !scope.iter().any(|source| covers(source, name))
    };
    let uncovered = headers.keys().filter(is_uncovered).min_by_key(|name| name.as_str());
    uncovered.map_or(Ok(()), |name| {
        Err(ScopeMissing::Uncovered { seen: written(name), scope: scope_with(scope, name) })
    })
}

/// True if it is, beside `auto`, one of the credentials of which a request needs only one.
pub(super) fn is_alternative(source: &ScopeSource, scope: &[ScopeSource]) -> bool {
    scope.contains(&ScopeSource::Auto)
        && match source {
            ScopeSource::Auto | ScopeSource::Cookie(_) => true,
            ScopeSource::Header(name) => *name == header::AUTHORIZATION || is_credential(name),
            ScopeSource::Jwt(_) | ScopeSource::ClientIp | ScopeSource::Global => false,
        }
}

/// To CGI, WSGI and their kin `Api_Key` is `Api-Key`.
fn is_credential(name: &HeaderName) -> bool {
    let is_listed = |name: &str| CREDENTIALS.binary_search(&name).is_ok();
    let name = name.as_str();
    if name.contains('_') { is_listed(&name.replace('_', "-")) } else { is_listed(name) }
}

/// True if a credential of this name is part of the scope. Which cookie counts is the operator's choice.
fn covers(source: &ScopeSource, credential: &HeaderName) -> bool {
    match source {
        ScopeSource::Header(name) => name == credential,
        ScopeSource::Cookie(_) => credential == header::COOKIE,
        // All clients are one on purpose.
        ScopeSource::Global => true,
        ScopeSource::Auto | ScopeSource::Jwt(_) | ScopeSource::ClientIp => false,
    }
}

/// The name as it is usually written: `X-Api-Key`.
fn written(name: &HeaderName) -> String {
    let mut is_first = true;
    let capital = |letter: char| {
        let written = if is_first { letter.to_ascii_uppercase() } else { letter };
        is_first = matches!(letter, '-' | '_');
        written
    };
    name.as_str().chars().map(capital).collect()
}

/// The scope as it would have to be written.
fn scope_with(scope: &[ScopeSource], credential: &HeaderName) -> String {
    let mut sources: Vec<String> = scope.iter().map(|source| format!("\"{source}\"")).collect();
    sources.push(if credential == header::COOKIE {
        "\"cookie:NAME\"] with the name of the session cookie".to_owned()
    } else {
        format!("\"header:{credential}\"]")
    });
    format!("[{}", sources.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_found_by_their_order() {
        assert!(CREDENTIALS.is_sorted());
        for name in ["Cookie", "X-User-Token", "access-token", "api_key", "X_Api_Key"] {
            assert!(is_credential(&name.parse().unwrap()), "{name}");
        }
        for name in ["x-csrf-token", "authorization", "idempotency-key", "x-forwarded-for", "key"] {
            assert!(!is_credential(&name.parse().unwrap()), "{name}");
        }
    }

    #[test]
    fn names_are_written_as_usual() {
        assert_eq!(written(&HeaderName::from_static("x-ssl-client-cert")), "X-Ssl-Client-Cert");
        assert_eq!(written(&HeaderName::from_static("api_key")), "Api_Key");
    }
}
