use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use semel_store::{Clock, MachineClock};
use serde_json::{Map, Value};

use super::algorithm::TokenAlgorithm;
use super::compact::Compact;
use super::keys::KeySet;
use super::rules::TokenRules;
use crate::json::{self, Pointer};
use crate::token::{TokenRefused, VerifiedToken, VerifyToken};

/// Keys that may change while tokens are verified by them. An `Arc<KeySet>` is one that does not.
pub trait Keys: fmt::Debug + Send + Sync + 'static {
    /// The keys as known now; none before they were read for the first time.
    fn current(&self) -> Option<Arc<KeySet>>;

    /// Looks for newer ones, because of a token whose key is not known; see
    /// [`VerifyToken::renew`] for what must be bounded.
    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(std::future::ready(()))
    }
}

/// Verifies JSON Web Tokens: three parts, no critical header, an accepted algorithm, a key of the
/// kind that goes with it, the signature; then issuer, audience and times.
#[derive(Debug)]
pub struct TokenVerifier {
    rules: TokenRules,
    keys: Box<dyn Keys>,
    clock: Arc<dyn Clock>,
}

// === impl TokenVerifier ===

impl TokenVerifier {
    /// Verifies by these rules and keys.
    pub fn new(rules: TokenRules, keys: impl Keys) -> Self {
        Self { rules, keys: Box::new(keys), clock: Arc::new(MachineClock) }
    }

    /// The same with another clock than the machine's.
    #[must_use]
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Arc::new(clock);
        self
    }
}

impl VerifyToken for TokenVerifier {
    fn verify(&self, token: &str) -> Result<VerifiedToken, TokenRefused> {
        let token = Compact::parse(token)?;
        let accepted = |algorithm: &TokenAlgorithm| self.rules.algorithms().contains(algorithm);
        let algorithm = token.algorithm.parse().ok().filter(accepted);
        let algorithm = algorithm.ok_or(TokenRefused::Algorithm)?;
        let keys = self.keys.current().ok_or(TokenRefused::NoKeys)?;
        keys.verify(&token, algorithm)?;
        self.rules.judge(&claims(&token.claims)?, self.clock.now())?;
        Ok(VerifiedToken::new(self.rules.issuer(), token.claims))
    }

    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.keys.renew()
    }
}

/// The claims, if all readers would read the same.
fn claims(text: &[u8]) -> Result<Map<String, Value>, TokenRefused> {
    let malformed = |_| TokenRefused::Malformed;
    let anywhere = Pointer::parse("/exp").map_err(|_| TokenRefused::Malformed)?;
    json::find(text, &anywhere).map_err(|_| TokenRefused::Malformed)?;
    serde_json::from_slice(text).map_err(malformed)
}

impl Keys for Arc<KeySet> {
    fn current(&self) -> Option<Arc<KeySet>> {
        Some(self.clone())
    }
}
