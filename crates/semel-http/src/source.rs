//! Where a key and a client identity come from, as configuration names it.

use std::fmt;
use std::str::FromStr;

use http::header::HeaderName;

use crate::json::Pointer;

/// Where a key, or the id of what an execution made, is found in a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartSource {
    /// `header:NAME`
    Header(HeaderName),
    /// `json:/pointer`, into a JSON body.
    Json(Pointer),
}

/// Where (a part of) the client identity comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeSource {
    /// `auto`: the header `Authorization`. A request without it that carries another credential is
    /// refused, unless another source covers that one.
    Auto,
    /// `header:NAME`
    Header(HeaderName),
    /// `cookie:NAME`
    Cookie(CookieName),
    /// `jwt:CLAIM`, of the bearer token in `Authorization`.
    Jwt(JwtClaim),
    /// `client-ip`
    ClientIp,
    /// `global`: all clients share one scope.
    Global,
}

/// The name of a cookie. Capitals count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieName(Box<str>);

/// A claim of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JwtClaim {
    name: Box<str>,
    pointer: Pointer,
}

/// Why a text does not name a source.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SourceError {
    message: String,
}

// === impl PartSource ===

impl FromStr for PartSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        match text.split_once(':') {
            Some(("header", name)) => Ok(Self::Header(header(name)?)),
            Some(("json", pointer)) => Ok(Self::Json(json(pointer)?)),
            _ => Err(SourceError::unknown(text, "header:NAME or json:/pointer")),
        }
    }
}

impl fmt::Display for PartSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
        }
    }
}

// === impl ScopeSource ===

impl FromStr for ScopeSource {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        match text.split_once(':') {
            Some(("header", name)) => Ok(Self::Header(header(name)?)),
            Some(("cookie", name)) => Ok(Self::Cookie(CookieName::new(name)?)),
            Some(("jwt", claim)) if !claim.is_empty() => Ok(Self::Jwt(JwtClaim::new(claim)?)),
            None if text == "auto" => Ok(Self::Auto),
            None if text == "client-ip" => Ok(Self::ClientIp),
            None if text == "global" => Ok(Self::Global),
            _ => Err(SourceError::unknown(
                text,
                "auto, header:NAME, cookie:NAME, jwt:CLAIM, client-ip or global",
            )),
        }
    }
}

impl fmt::Display for ScopeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{}", name.as_str()),
            Self::Jwt(claim) => write!(f, "jwt:{}", claim.name),
            Self::ClientIp => f.write_str("client-ip"),
            Self::Global => f.write_str("global"),
        }
    }
}

// === impl CookieName ===

impl CookieName {
    fn new(name: &str) -> Result<Self, SourceError> {
        // A token (RFC 6265, section 4.1.1), as the name of a header field is.
        match HeaderName::from_bytes(name.as_bytes()) {
            Ok(_) => Ok(Self(name.into())),
            Err(_) => Err(SourceError { message: format!("`{name}` is not the name of a cookie") }),
        }
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

// === impl JwtClaim ===

impl JwtClaim {
    fn new(name: &str) -> Result<Self, SourceError> {
        // A claim is a member of the token's object, also when its name is a URL.
        let pointer = json(&format!("/{}", name.replace('~', "~0").replace('/', "~1")))?;
        Ok(Self { name: name.into(), pointer })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is in the token.
    pub(crate) const fn pointer(&self) -> &Pointer {
        &self.pointer
    }
}

// === impl SourceError ===

impl SourceError {
    fn unknown(text: &str, known: &str) -> Self {
        Self { message: format!("`{text}` is not a source; write {known}") }
    }
}

fn header(name: &str) -> Result<HeaderName, SourceError> {
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| SourceError { message: format!("`{name}` is not the name of a header field") })
}

fn json(pointer: &str) -> Result<Pointer, SourceError> {
    Pointer::parse(pointer).map_err(|error| SourceError { message: error.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: FromStr<Err = SourceError> + fmt::Display>(text: &str) -> String {
        text.parse::<T>().map_or_else(|error| error.to_string(), |source| source.to_string())
    }

    #[test]
    fn sources_are_read_and_written() {
        for text in ["header:idempotency-key", "json:/idempotency_key", "json:/a~1b/0"] {
            assert_eq!(round_trip::<PartSource>(text), text);
        }
        for text in [
            "auto",
            "header:authorization",
            "cookie:sessionId",
            "jwt:sub",
            "jwt:https://a.b/~c",
            "client-ip",
            "global",
        ] {
            assert_eq!(round_trip::<ScopeSource>(text), text);
        }
        assert_eq!(
            round_trip::<PartSource>("header:PayPal-Request-Id"),
            "header:paypal-request-id"
        );
    }

    #[test]
    fn errors_are_reported_with_a_cure() {
        for text in ["", "idempotency-key", "cookie:a", "client-ip", "jwt:"] {
            let told = round_trip::<PartSource>(text);
            assert!(told.contains("header:NAME or json:/pointer"), "{told}");
        }
        assert!(round_trip::<ScopeSource>("jwt:").contains("jwt:CLAIM"));
        assert!(round_trip::<ScopeSource>("cookie:").contains("name of a cookie"));
        assert!(round_trip::<ScopeSource>("cookie:a b").contains("name of a cookie"));
        assert!(round_trip::<PartSource>("header:a b").contains("header field"));
        assert!(round_trip::<PartSource>("json:a").len() > 5);
    }
}
