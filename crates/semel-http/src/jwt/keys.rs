//! The keys by which signatures are verified.

mod jwks;
mod pem;
mod public;

use std::fmt;

use jsonwebtoken::DecodingKey;
use jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER;

use super::algorithm::{Family, TokenAlgorithm};
use super::compact::Compact;
use super::rules::TokenRules;
use crate::token::TokenRefused;

/// Keys by which tokens are verified.
pub struct KeySet {
    keys: Vec<Key>,
    private_keys: usize,
}

struct Key {
    /// What tokens call it.
    id: Option<Box<str>>,
    family: Family,
    /// The only algorithm it is for, if its issuer says so.
    only: Option<TokenAlgorithm>,
    decoding: DecodingKey,
}

/// Why there are no keys.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// Nothing is there.
    #[error(
        "there is nothing in it; it must have public keys in PEM, a JSON Web Key Set or a secret"
    )]
    Empty,
    /// A reader of the file could make tokens.
    #[error(
        "it has a private key, which belongs to the issuer alone; write the public one with \
         openssl pkey -in FILE -pubout, or leave out what is private in a key set"
    )]
    PrivateKey,
    /// Other things can be in PEM.
    #[error(
        "it has no `BEGIN PUBLIC KEY`; openssl x509 -in FILE -pubkey -noout takes the key out of a \
         certificate"
    )]
    NoPublicKey,
    /// PEM that is broken, or of a kind that is not known.
    #[error(
        "it has a key that cannot be read; RSA of 2048 bits or more, P-256, P-384 or Ed25519 can"
    )]
    Unreadable,
    /// JSON of another kind.
    #[error("it is not a JSON Web Key Set, which is {{\"keys\":[…]}}")]
    NotAKeySet,
    /// Neither PEM nor JSON.
    #[error(
        "it is neither PEM nor a JSON Web Key Set; a secret that is shared goes with algorithms such \
         as HS256 only"
    )]
    UnknownForm,
    /// A public key must not be used as a secret: any client could make tokens.
    #[error(
        "it has a public key, and {algorithm} goes with a secret; name the algorithms of the key, \
         such as RS256"
    )]
    PublicForSecret {
        /// The first algorithm that was named.
        algorithm: TokenAlgorithm,
    },
    /// It could be guessed.
    #[error(
        "the secret has {bytes} bytes, and {algorithm} needs at least {min}; make one with \
         openssl rand -base64 64"
    )]
    ShortSecret {
        /// How many there are.
        bytes: usize,
        /// How many there must be.
        min: usize,
        /// For this algorithm.
        algorithm: TokenAlgorithm,
    },
    /// Keys are there, and none can verify a token.
    #[error("it has no key for {0}; name the algorithms of its keys, or another place")]
    NoneUsable(String),
}

/// How many keys are tried on a token that names none.
const TRIED_MAX: usize = 16;

// === impl KeySet ===

impl KeySet {
    /// Reads public keys in PEM, a JSON Web Key Set, or a secret, as it goes with the algorithms of
    /// `rules`. Keys of a set that are for something else are left out, and so are those whose private part is in it,
    /// with an error in the log.
    pub fn read(bytes: &[u8], rules: &TokenRules) -> Result<Self, KeysError> {
        // A mark of the byte order, as editors write it, does not make a secret of a key set.
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let begins = bytes.trim_ascii_start();
        let secret_for = rules.algorithms().first().copied().filter(|_| rules.is_secret());
        let (mut keys, private_keys) = if begins.is_empty() {
            return Err(KeysError::Empty);
        } else if begins.starts_with(b"{") {
            jwks::read(begins)?
        } else if let Some(algorithm) = secret_for {
            if public::is_public(begins) {
                return Err(KeysError::PublicForSecret { algorithm });
            }
            (vec![secret(bytes, rules)?], 0)
        } else if public::is_pem(bytes) {
            (pem::read(bytes)?, 0)
        } else {
            return Err(KeysError::UnknownForm);
        };
        keys.retain(|key| rules.algorithms().iter().any(|algorithm| key.is_for(*algorithm)));
        if keys.is_empty() {
            let names: Vec<_> = rules.algorithms().iter().map(ToString::to_string).collect();
            return Err(KeysError::NoneUsable(names.join(", ")));
        }
        Ok(Self { keys, private_keys })
    }

    /// How many keys were refused since a reader of the set could make tokens by them.
    pub const fn private_keys(&self) -> usize {
        self.private_keys
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Checks that one of these keys has signed the token.
    pub(super) fn verify(
        &self,
        token: &Compact<'_>,
        algorithm: TokenAlgorithm,
    ) -> Result<(), TokenRefused> {
        let id = token.key_id.as_deref();
        let is_named = |key: &&Key| id.is_some() && key.id.as_deref() == id;
        // A token may name a key that has no name here; one that has another is not tried.
        let may_be = |key: &&Key| id.is_none() || key.id.is_none();
        let mut keys: Vec<_> = self.keys.iter().filter(is_named).collect();
        if keys.is_empty() {
            keys = self.keys.iter().filter(may_be).collect();
        }
        keys.retain(|key| key.is_for(algorithm));
        if keys.is_empty() {
            return Err(TokenRefused::UnknownKey);
        }
        let is_signed = |key: &&Key| key.verifies(token, algorithm);
        if keys.into_iter().take(TRIED_MAX).any(|key| is_signed(&key)) {
            return Ok(());
        }
        Err(TokenRefused::Signature)
    }
}

/// What its keys are called, and no more.
impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.keys.iter().map(|key| (&key.id, key.family))).finish()
    }
}

// === impl Key ===

impl Key {
    fn is_for(&self, algorithm: TokenAlgorithm) -> bool {
        let is_long_enough = |key: &DecodingKey| {
            key.try_get_as_bytes().is_ok_and(|secret| secret.len() >= algorithm.secret_min())
        };
        self.family == algorithm.family()
            && self.only.is_none_or(|only| only == algorithm)
            && (!algorithm.is_secret() || is_long_enough(&self.decoding))
    }

    fn verifies(&self, token: &Compact<'_>, algorithm: TokenAlgorithm) -> bool {
        // Not the provider of the process: another crate may have chosen one that is not built.
        let verifier = (DEFAULT_PROVIDER.verifier_factory)(&algorithm.named(), &self.decoding);
        verifier.is_ok_and(|verifier| verifier.verify(token.signed, &token.signature).is_ok())
    }
}

/// A secret as it stands in a file, of which editors end the last line.
fn secret(bytes: &[u8], rules: &TokenRules) -> Result<Key, KeysError> {
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let bytes = bytes.strip_suffix(b"\r").unwrap_or(bytes);
    let shortest = rules.algorithms().iter().max_by_key(|algorithm| algorithm.secret_min());
    if let Some(algorithm) = shortest.copied().filter(|it| bytes.len() < it.secret_min()) {
        let (bytes, min) = (bytes.len(), algorithm.secret_min());
        return Err(KeysError::ShortSecret { bytes, min, algorithm });
    }
    let key = DecodingKey::from_secret(bytes);
    Ok(Key { id: None, family: Family::Secret, only: None, decoding: key })
}
