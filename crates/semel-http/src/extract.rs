//! The key of a request and the identity of its client.

mod bearer;
mod cookies;
mod credentials;
mod identity;
mod keys;

pub(crate) use bearer::{token, token_now};
pub use identity::ClientIp;
pub(crate) use identity::{ScopeMissing, identity_of, scope_of};
pub(crate) use keys::{KeyProblem, key_in_body, key_in_headers, looks_into_body};

#[cfg(test)]
mod tests;
