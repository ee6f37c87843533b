//! A JSON Web Key Set (RFC 7517).

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{DecodingKey, DecodingKeyKind};
use serde_json::{Map, Value};

use super::{Family, Key, KeysError};
use crate::jwt::TokenAlgorithm;

/// RSA keys of 2048 bits.
const MODULUS_MIN: usize = 256;

/// Its keys, and how many were refused since their private part is in the set. Those that are for something else, or
/// of a kind that is not known, are left out.
pub(super) fn read(text: &[u8]) -> Result<(Vec<Key>, usize), KeysError> {
    let set: Map<String, Value> =
        serde_json::from_slice(text).map_err(|_| KeysError::NotAKeySet)?;
    let Some(Value::Array(keys)) = set.get("keys") else { return Err(KeysError::NotAKeySet) };
    // A secret has no `d`; the private part of a key pair has.
    let (private, public): (Vec<_>, Vec<_>) =
        keys.iter().partition(|key| key.get("d").is_some_and(|part| !part.is_null()));
    // All readers of the set can sign by them, so their public parts are not believed either.
    let is_published = |key: &Value| private.iter().any(|it| is_of_one_pair(it, key));
    let (published, sound): (Vec<_>, Vec<_>) =
        public.into_iter().partition(|key| is_published(key));
    for key in private.iter().chain(&published) {
        let id = key.get("kid").and_then(Value::as_str).unwrap_or_default();
        tracing::error!(
            id,
            "a key set publishes this private key, with which any reader can sign tokens; tokens of this key are refused; let \
             the issuer replace the key"
        );
    }
    let keys: Vec<Key> = sound.into_iter().filter_map(key).collect();
    if keys.is_empty() && !private.is_empty() {
        return Err(KeysError::PrivateKey);
    }
    Ok((keys, private.len() + published.len()))
}

/// Have they the same public part? It is the modulus of RSA, and a coordinate of all others.
fn is_of_one_pair(one: &Value, other: &Value) -> bool {
    let part = |key: &Value| [key.get("n").cloned(), key.get("x").cloned()];
    part(one) == part(other) && part(one).iter().any(Option::is_some)
}

fn key(value: &Value) -> Option<Key> {
    // One by one: a key of a kind that came later must not hide the others.
    let jwk: Jwk = serde_json::from_value(value.clone()).ok()?;
    let common = &jwk.common;
    let is_to_verify = match &common.key_operations {
        Some(operations) => operations.contains(&KeyOperations::Verify),
        None => !matches!(
            common.public_key_use,
            Some(PublicKeyUse::Encryption | PublicKeyUse::Other(_))
        ),
    };
    let only = match value.get("alg") {
        // Some issuers write that there is none.
        None | Some(Value::Null) => None,
        // One for an algorithm that is not known here verifies nothing here.
        Some(name) => Some(name.as_str()?.parse::<TokenAlgorithm>().ok()?),
    };
    let family = family(&jwk.algorithm)?;
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    let is_sound = match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, .. } => n.len() >= MODULUS_MIN,
        DecodingKeyKind::SecretOrDer(bytes) => match family {
            Family::P256 => bytes.len() == 65,
            Family::P384 => bytes.len() == 97,
            Family::Ed25519 => bytes.len() == 32,
            Family::Rsa | Family::Secret => true,
        },
    };
    let id = common.key_id.as_deref().map(Into::into);
    (is_to_verify && is_sound).then_some(Key { id, family, only, decoding: key })
}

fn family(parameters: &AlgorithmParameters) -> Option<Family> {
    match parameters {
        AlgorithmParameters::RSA(_) => Some(Family::Rsa),
        AlgorithmParameters::OctetKey(_) => Some(Family::Secret),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Some(Family::P256),
            EllipticCurve::P384 => Some(Family::P384),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => Some(Family::Ed25519),
            _ => None,
        },
        _ => None,
    }
}
