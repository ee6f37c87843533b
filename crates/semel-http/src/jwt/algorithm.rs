use std::fmt;
use std::str::FromStr;

use jsonwebtoken::Algorithm;

/// How a token is signed (RFC 7518, section 3.1; RFC 8037). There is no `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenAlgorithm {
    /// RSA, PKCS #1 version 1.5, with SHA-256.
    Rs256,
    /// The same with SHA-384.
    Rs384,
    /// The same with SHA-512.
    Rs512,
    /// RSA, PSS, with SHA-256.
    Ps256,
    /// The same with SHA-384.
    Ps384,
    /// The same with SHA-512.
    Ps512,
    /// ECDSA over P-256 with SHA-256.
    Es256,
    /// ECDSA over P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
    /// HMAC with SHA-256: a party that can verify such a token can make one.
    Hs256,
    /// The same with SHA-384.
    Hs384,
    /// The same with SHA-512.
    Hs512,
}

/// A name of no algorithm.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a known algorithm; write {known}", known = TokenAlgorithm::WORDS.join(", "))]
pub struct UnknownAlgorithm(String);

/// What a key is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Rsa,
    P256,
    P384,
    Ed25519,
    Secret,
}

// === impl TokenAlgorithm ===

impl TokenAlgorithm {
    const ALL: [Self; 12] = [
        Self::Rs256,
        Self::Rs384,
        Self::Rs512,
        Self::Ps256,
        Self::Ps384,
        Self::Ps512,
        Self::Es256,
        Self::Es384,
        Self::EdDsa,
        Self::Hs256,
        Self::Hs384,
        Self::Hs512,
    ];

    /// Their names.
    pub const WORDS: &'static [&'static str] = &[
        "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256",
        "HS384", "HS512",
    ];

    /// Its name, as tokens have it.
    pub const fn as_str(self) -> &'static str {
        Self::WORDS[self as usize]
    }

    /// True if its key is a secret that verifier and issuer share.
    pub const fn is_secret(self) -> bool {
        matches!(self, Self::Hs256 | Self::Hs384 | Self::Hs512)
    }

    pub(super) const fn family(self) -> Family {
        match self {
            Self::Rs256 | Self::Rs384 | Self::Rs512 | Self::Ps256 | Self::Ps384 | Self::Ps512 => {
                Family::Rsa
            }
            Self::Es256 => Family::P256,
            Self::Es384 => Family::P384,
            Self::EdDsa => Family::Ed25519,
            Self::Hs256 | Self::Hs384 | Self::Hs512 => Family::Secret,
        }
    }

    /// The shortest secret: as long as the hash (RFC 7518, section 3.2).
    pub(super) const fn secret_min(self) -> usize {
        match self {
            Self::Hs512 => 64,
            Self::Hs384 => 48,
            _ => 32,
        }
    }

    /// As the library names it.
    pub(super) const fn named(self) -> Algorithm {
        match self {
            Self::Rs256 => Algorithm::RS256,
            Self::Rs384 => Algorithm::RS384,
            Self::Rs512 => Algorithm::RS512,
            Self::Ps256 => Algorithm::PS256,
            Self::Ps384 => Algorithm::PS384,
            Self::Ps512 => Algorithm::PS512,
            Self::Es256 => Algorithm::ES256,
            Self::Es384 => Algorithm::ES384,
            Self::EdDsa => Algorithm::EdDSA,
            Self::Hs256 => Algorithm::HS256,
            Self::Hs384 => Algorithm::HS384,
            Self::Hs512 => Algorithm::HS512,
        }
    }
}

impl FromStr for TokenAlgorithm {
    type Err = UnknownAlgorithm;

    fn from_str(text: &str) -> Result<Self, UnknownAlgorithm> {
        let found = Self::ALL.into_iter().find(|algorithm| algorithm.as_str() == text);
        found.ok_or_else(|| UnknownAlgorithm(text.to_owned()))
    }
}

impl fmt::Display for TokenAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_library_and_none_is_none_of_them() {
        for algorithm in TokenAlgorithm::ALL {
            assert_eq!(algorithm.as_str().parse(), Ok(algorithm));
            assert_eq!(algorithm.as_str().parse::<Algorithm>().unwrap(), algorithm.named());
        }
        assert_eq!(TokenAlgorithm::WORDS.len(), TokenAlgorithm::ALL.len());
        for name in ["none", "None", "NONE", "rs256", "", "ES512"] {
            let error = name.parse::<TokenAlgorithm>().unwrap_err().to_string();
            assert!(error.contains("write RS256, "), "{error}");
        }
    }
}
