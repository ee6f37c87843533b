//! JSON Web Tokens (RFC 7519) that identify a client, verified with the keys of their issuer.
//!
//! [`TokenRules`] say which tokens are accepted, [`KeySet`] has the keys, and [`TokenVerifier`] puts
//! them together for a layer. Keys may change while it is used: see [`Keys`].
//!
//! ```
//! use std::sync::Arc;
//! use semel_http::jwt::{KeySet, TokenAlgorithm, TokenRules, TokenVerifier};
//! use semel_http::{RoutePolicy, TokenRefused, VerifyToken as _};
//!
//! let rules = TokenRules::new("https://login.example.com", [TokenAlgorithm::EdDsa])?
//!     .audience(["https://api.example.com"]);
//! let keys = KeySet::read(
//!     b"-----BEGIN PUBLIC KEY-----
//! MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=
//! -----END PUBLIC KEY-----",
//!     &rules,
//! )?;
//! let verifier = TokenVerifier::new(rules, Arc::new(keys));
//! let forged = "eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJhbm4ifQ.c2ln";
//! assert_eq!(verifier.verify(forged), Err(TokenRefused::Signature));
//!
//! let policy = RoutePolicy::builder().scope(vec!["jwt:sub".parse()?]).build()?;
//! // SemelLayer::new(engine, Routes::new(policy)).verifier(Arc::new(verifier))
//! # drop(policy);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod algorithm;
mod compact;
mod keys;
mod rules;
mod verifier;

pub use algorithm::{TokenAlgorithm, UnknownAlgorithm};
pub use keys::{KeySet, KeysError};
pub use rules::{TokenRules, TokenRulesError};
pub use verifier::{Keys, TokenVerifier};

#[cfg(test)]
mod tests;
