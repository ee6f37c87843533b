//! The policy for the `Forwarded` and `X-Forwarded-…` fields of requests.

/// The treatment of the `Forwarded` and `X-Forwarded-…` fields that a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarded {
    /// They are replaced: the address that a client claims is not trusted.
    Replace,
    /// They are appended to: a trusted proxy in front sets them.
    Append,
}
