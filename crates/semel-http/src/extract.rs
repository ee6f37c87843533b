//! What a request says about itself: its key, and who sent it.

mod identity;

pub use identity::ClientIp;
pub(crate) use identity::{ScopeMissing, scope_of};

use http::HeaderMap;
use http::header::HeaderName;
use semel_core::{Key, KeyError, KeyLimits};

use crate::json::{self, Scalar};
use crate::policy::RoutePolicy;
use crate::source::PartSource;

/// Why a request has no usable key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyProblem {
    #[error("the header field {0} comes more than once; send one key")]
    Repeated(HeaderName),
    #[error(transparent)]
    Malformed(#[from] KeyError),
    #[error("the key in the body must be a JSON string or number")]
    NotText,
}

/// The key in the headers, from the first source that has one.
pub(crate) fn key_in_headers(
    headers: &HeaderMap,
    policy: &RoutePolicy,
) -> Result<Option<Key>, KeyProblem> {
    for source in &policy.key_from {
        if let PartSource::Header(name) = source
            && let Some(key) = key_in_header(headers, name, policy.key_limits)?
        {
            return Ok(Some(key));
        }
    }
    Ok(None)
}

/// The key in the body, from the first source that has one.
pub(crate) fn key_in_body(body: &[u8], policy: &RoutePolicy) -> Result<Option<Key>, KeyProblem> {
    for source in &policy.key_from {
        let PartSource::Json(pointer) = source else { continue };
        // A text that is no JSON, or that could be read in two ways, has no key.
        match json::find(body, pointer) {
            Ok(Some(Scalar::String(text))) => {
                return Ok(Some(Key::parse_header(text.as_bytes(), policy.key_limits)?));
            }
            Ok(Some(Scalar::Number(token))) => {
                return Ok(Some(Key::parse_header(token.as_bytes(), policy.key_limits)?));
            }
            Ok(Some(Scalar::Other)) => return Err(KeyProblem::NotText),
            Ok(None) | Err(_) => {}
        }
    }
    Ok(None)
}

/// Can the key be in the body?
pub(crate) fn looks_into_body(policy: &RoutePolicy) -> bool {
    policy.key_from.iter().any(|source| matches!(source, PartSource::Json(_)))
}

fn key_in_header(
    headers: &HeaderMap,
    name: &HeaderName,
    limits: KeyLimits,
) -> Result<Option<Key>, KeyProblem> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else {
        return Ok(None);
    };
    // Two keys, or one twice: whoever joined the messages decides which one counts, so nobody does.
    if values.next().is_some() {
        return Err(KeyProblem::Repeated(name.clone()));
    }
    Ok(Some(Key::parse_header(value.as_bytes(), limits)?))
}

#[cfg(test)]
mod tests;
