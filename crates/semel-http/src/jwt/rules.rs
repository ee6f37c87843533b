use std::time::Duration;

use semel_core::Timestamp;
use serde_json::{Map, Value};

use super::algorithm::TokenAlgorithm;
use crate::token::TokenRefused;

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRules {
    issuer: Box<str>,
    algorithms: Vec<TokenAlgorithm>,
    audience: Vec<Box<str>>,
    leeway: Duration,
}

/// Why rules are invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenRulesError {
    /// A subject is unique to its issuer.
    #[error("no issuer is named; write what the tokens have in their claim iss")]
    NoIssuer,
    /// The token must not choose by itself.
    #[error("no algorithm is named; write those that the issuer signs with, such as RS256")]
    NoAlgorithm,
    /// A public key, which is known to all, could be taken for a secret.
    #[error(
        "{secret} has a secret that is shared, and {public} a public key; name algorithms of one kind"
    )]
    Mixed {
        /// The first with a secret.
        secret: TokenAlgorithm,
        /// The first with a public key.
        public: TokenAlgorithm,
    },
}

/// The default tolerance for clock differences.
const LEEWAY: Duration = Duration::from_secs(30);

// === impl TokenRules ===

impl TokenRules {
    /// Tokens of this issuer (claim `iss`), signed by one of these algorithms.
    pub fn new(
        issuer: &str,
        algorithms: impl IntoIterator<Item = TokenAlgorithm>,
    ) -> Result<Self, TokenRulesError> {
        let algorithms: Vec<_> = algorithms.into_iter().collect();
        if issuer.is_empty() {
            return Err(TokenRulesError::NoIssuer);
        }
        let first = |is_secret| algorithms.iter().find(|it| it.is_secret() == is_secret).copied();
        match (first(true), first(false)) {
            (None, None) => return Err(TokenRulesError::NoAlgorithm),
            (Some(secret), Some(public)) => return Err(TokenRulesError::Mixed { secret, public }),
            _ => {}
        }
        Ok(Self { issuer: issuer.into(), algorithms, audience: Vec::new(), leeway: LEEWAY })
    }

    /// The same for one of these audiences only (claim `aud`). Without it the claim is not looked
    /// at, and a token that was meant for another service of the issuer counts here too.
    #[must_use]
    pub fn audience<T: Into<Box<str>>>(mut self, audience: impl IntoIterator<Item = T>) -> Self {
        self.audience = audience.into_iter().map(Into::into).collect();
        self
    }

    /// The same with clocks that may differ by so much: 30 seconds unless said otherwise.
    #[must_use]
    pub const fn leeway(mut self, leeway: Duration) -> Self {
        self.leeway = leeway;
        self
    }

    /// The issuer that tokens must have.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The algorithms that a token may be signed with.
    pub fn algorithms(&self) -> &[TokenAlgorithm] {
        &self.algorithms
    }

    /// True if the key is a shared secret.
    pub(super) fn is_secret(&self) -> bool {
        self.algorithms.iter().any(|algorithm| algorithm.is_secret())
    }

    /// Checks the claims of a token whose signature has been verified.
    pub(super) fn judge(
        &self,
        claims: &Map<String, Value>,
        now: Timestamp,
    ) -> Result<(), TokenRefused> {
        let issuer = claims.get("iss").and_then(Value::as_str);
        if issuer != Some(&*self.issuer) {
            return Err(TokenRefused::Issuer);
        }
        if !self.audience.is_empty() && !self.is_for_us(claims.get("aud")) {
            return Err(TokenRefused::Audience);
        }
        let now_s = Duration::from_millis(now.as_millis()).as_secs_f64();
        let leeway = self.leeway.as_secs_f64();
        let expires = seconds(claims.get("exp"))?.ok_or(TokenRefused::NoExpiry)?;
        if now_s >= expires + leeway {
            return Err(TokenRefused::Expired);
        }
        match seconds(claims.get("nbf"))? {
            Some(begins) if now_s + leeway < begins => Err(TokenRefused::NotYetValid),
            _ => Ok(()),
        }
    }

    fn is_for_us(&self, audience: Option<&Value>) -> bool {
        let is_one = |value: &Value| self.audience.iter().any(|one| value.as_str() == Some(one));
        match audience {
            Some(Value::Array(values)) => values.iter().any(is_one),
            Some(value) => is_one(value),
            None => false,
        }
    }
}

/// A time as tokens have it: seconds since 1970, perhaps with a fraction.
fn seconds(claim: Option<&Value>) -> Result<Option<f64>, TokenRefused> {
    match claim {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or(TokenRefused::Malformed),
    }
}
