//! Keys of an issuer of tokens, made by the test that needs them, and tokens signed with them.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair,
    KeyPair as _, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RSA_PSS_SHA256, RsaEncoding, RsaKeyPair,
};

use crate::token::random;

/// A key pair, or a secret, with the algorithm that it signs by.
pub struct SigningKey {
    algorithm: &'static str,
    id: String,
    pair: Pair,
}

enum Pair {
    Rsa(RsaKeyPair, &'static dyn RsaEncoding),
    Ec(EcdsaKeyPair, &'static str),
    Ed(Ed25519KeyPair),
    Secret(hmac::Algorithm, [u8; 64]),
}

// === impl SigningKey ===

impl SigningKey {
    /// A new key, for `RS256`, `RS512`, `PS256`, `ES256`, `ES384`, `EdDSA`, `HS256` or `HS512`.
    ///
    /// # Panics
    ///
    /// For other algorithms, and if the machine has no randomness.
    pub fn new(algorithm: &'static str, id: &str) -> Self {
        let rsa = |encoding| {
            Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("randomness"), encoding)
        };
        let secret = |algorithm| Pair::Secret(algorithm, random().expect("randomness"));
        let pair = match algorithm {
            "RS256" => rsa(&RSA_PKCS1_SHA256),
            "RS512" => rsa(&RSA_PKCS1_SHA512),
            "PS256" => rsa(&RSA_PSS_SHA256),
            "ES256" => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING);
                Pair::Ec(pair.expect("randomness"), "P-256")
            }
            "ES384" => {
                let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_FIXED_SIGNING);
                Pair::Ec(pair.expect("randomness"), "P-384")
            }
            "EdDSA" => Pair::Ed(Ed25519KeyPair::generate().expect("randomness")),
            "HS256" => secret(hmac::HMAC_SHA256),
            "HS512" => secret(hmac::HMAC_SHA512),
            other => panic!("no key can be made for {other}"),
        };
        Self { algorithm, id: id.to_owned(), pair }
    }

    /// Its algorithm.
    pub const fn algorithm(&self) -> &'static str {
        self.algorithm
    }

    /// A token with these claims, a JSON object.
    pub fn token(&self, claims: &str) -> String {
        let (algorithm, id) = (self.algorithm, &self.id);
        self.sign(&format!(r#"{{"alg":"{algorithm}","typ":"JWT","kid":"{id}"}}"#), claims)
    }

    /// A token with another header than its own.
    ///
    /// # Panics
    ///
    /// If the machine has no randomness.
    pub fn sign(&self, header: &str, claims: &str) -> String {
        let message = format!("{}.{}", base64url(header.as_bytes()), base64url(claims.as_bytes()));
        let (random, bytes) = (SystemRandom::new(), message.as_bytes());
        let signature = match &self.pair {
            Pair::Rsa(pair, encoding) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(*encoding, &random, bytes, &mut signature).expect("a signature");
                signature
            }
            Pair::Ec(pair, _) => pair.sign(&random, bytes).expect("a signature").as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(bytes).as_ref().to_vec(),
            Pair::Secret(algorithm, secret) => {
                hmac::sign(&hmac::Key::new(*algorithm, secret), bytes).as_ref().to_vec()
            }
        };
        format!("{message}.{}", base64url(&signature))
    }

    /// Its public half as a JSON Web Key; of a secret, all of it.
    pub fn jwk(&self) -> String {
        let own = match &self.pair {
            Pair::Rsa(pair, _) => {
                let key = pair.public_key();
                let n = base64url(key.modulus().big_endian_without_leading_zero());
                let e = base64url(key.exponent().big_endian_without_leading_zero());
                format!(r#""kty":"RSA","n":"{n}","e":"{e}""#)
            }
            Pair::Ec(pair, curve) => {
                let point = &pair.public_key().as_ref()[1..];
                let (x, y) = point.split_at(point.len() / 2);
                let (x, y) = (base64url(x), base64url(y));
                format!(r#""kty":"EC","crv":"{curve}","x":"{x}","y":"{y}""#)
            }
            Pair::Ed(pair) => {
                let x = base64url(pair.public_key().as_ref());
                format!(r#""kty":"OKP","crv":"Ed25519","x":"{x}""#)
            }
            Pair::Secret(_, secret) => format!(r#""kty":"oct","k":"{}""#, base64url(secret)),
        };
        format!(r#"{{"kid":"{}","alg":"{}","use":"sig",{own}}}"#, self.id, self.algorithm)
    }

    /// Its public half in PEM.
    ///
    /// # Panics
    ///
    /// For a secret.
    pub fn pem(&self) -> String {
        let der: PublicKeyX509Der<'_> = match &self.pair {
            Pair::Rsa(pair, _) => pair.public_key().as_der().expect("a key"),
            Pair::Ec(pair, _) => pair.public_key().as_der().expect("a key"),
            Pair::Ed(pair) => pair.public_key().as_der().expect("a key"),
            Pair::Secret(..) => panic!("a secret has no public half"),
        };
        let text = base64(der.as_ref());
        let lines = text.as_bytes().chunks(64).fold(String::new(), |mut lines, line| {
            // Writing to a string cannot fail.
            let _ = writeln!(lines, "{}", String::from_utf8_lossy(line));
            lines
        });
        format!("-----BEGIN PUBLIC KEY-----\n{lines}-----END PUBLIC KEY-----\n")
    }

    /// The bytes of a secret.
    ///
    /// # Panics
    ///
    /// For a key pair.
    pub const fn secret(&self) -> &[u8] {
        match &self.pair {
            Pair::Secret(_, secret) => secret,
            _ => panic!("a key pair is no secret"),
        }
    }
}

/// A JSON Web Key Set of these keys.
pub fn key_set(keys: &[&SigningKey]) -> String {
    let keys: Vec<_> = keys.iter().map(|key| key.jwk()).collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}

/// A time as tokens have it, so far from now.
#[expect(clippy::disallowed_methods, reason = "tokens are for the machine's own clock")]
pub fn seconds_from_now(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX).saturating_add(seconds)
}

/// Unpadded base64url, as tokens have it.
pub fn base64url(bytes: &[u8]) -> String {
    base64(bytes).trim_end_matches('=').replace('+', "-").replace('/', "_")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0, |bits, at| bits << 8 | u32::from(*three.get(at).unwrap_or(&0)));
        for at in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
