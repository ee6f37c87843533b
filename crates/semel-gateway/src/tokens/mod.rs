//! Tokens that identify clients: their keys, read at the start and refreshed while the gateway serves.
//!
//! `source` reads keys from a file or (`fetch`) from a URL, `key_cache` has the current ones,
//! and `refresh` is the task that reads them again.

mod fetch;
mod key_cache;
mod refresh;
mod source;
#[cfg(test)]
mod tests;

pub use fetch::FetchError;
pub use source::{KeysFault, Unreadable};

use std::sync::Arc;

use semel_http::VerifyToken;
use semel_http::jwt::{TokenRules, TokenRulesError, TokenVerifier};
use tokio_util::sync::{CancellationToken, DropGuard};

use self::key_cache::KeyCache;
use self::refresh::Refresh;
use self::source::Source;
use crate::config::{Jwt, KeysFrom};
use crate::tls::TlsError;

/// Verifies tokens, and refreshes their keys until it is dropped.
pub(crate) struct Tokens {
    /// Its configuration: if a reload has the same, this is kept.
    pub(crate) jwt: Jwt,
    verifier: Arc<TokenVerifier>,
    cache: KeyCache,
    /// Ends the refresh when dropped.
    _refresh: DropGuard,
}

/// What to do if the keys cannot be read at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtFirst {
    /// Start without keys if they come from a URL, so that an outage of its server is not one of the gateway. A file
    /// must be readable.
    Wait,
    /// Fail: the previous configuration stays in effect.
    Refuse,
}

/// Why tokens cannot be verified.
#[derive(Debug)]
pub(crate) enum OpenError {
    Rules(TokenRulesError),
    Keys(KeysFault),
    Tls(TlsError),
}

// === impl Tokens ===

impl Tokens {
    /// Reads the keys, and starts to refresh them on the current runtime.
    pub(crate) async fn open(jwt: &Jwt, at_first: AtFirst) -> Result<Self, OpenError> {
        let rules = TokenRules::new(&jwt.issuer, jwt.algorithms.iter().copied())?
            .audience(jwt.audience.iter().map(String::as_str))
            .leeway(jwt.leeway);
        let source = Source::new(jwt, rules.clone())?;
        let cache = KeyCache::new(jwt.min_refresh);
        let mut refresh = Refresh::new(source, cache.clone(), jwt);
        let may_wait = at_first == AtFirst::Wait && matches!(jwt.keys, KeysFrom::Url(_));
        match refresh.refresh().await {
            Err(fault) if !may_wait => return Err(fault.into()),
            _ => {}
        }
        let closing = CancellationToken::new();
        tokio::spawn(closing.clone().run_until_cancelled_owned(refresh.run()));
        let verifier = Arc::new(TokenVerifier::new(rules, cache.clone()));
        Ok(Self { jwt: jwt.clone(), verifier, cache, _refresh: closing.drop_guard() })
    }

    pub(crate) fn verifier(&self) -> Arc<dyn VerifyToken> {
        self.verifier.clone()
    }

    /// Whether there are keys. Without them no token can be verified.
    pub(crate) fn is_ready(&self) -> bool {
        self.cache.is_ready()
    }
}

// === impl OpenError ===

impl From<TokenRulesError> for OpenError {
    fn from(error: TokenRulesError) -> Self {
        Self::Rules(error)
    }
}

impl From<KeysFault> for OpenError {
    fn from(error: KeysFault) -> Self {
        Self::Keys(error)
    }
}

impl From<TlsError> for OpenError {
    fn from(error: TlsError) -> Self {
        Self::Tls(error)
    }
}
