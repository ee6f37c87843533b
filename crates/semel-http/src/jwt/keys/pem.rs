//! Public keys in PEM (RFC 7468): `SubjectPublicKeyInfo` (RFC 5280), of the kinds that tokens use.

use jsonwebtoken::DecodingKey;
use rustls_pki_types::pem::{PemObject as _, SectionKind};

use super::{Family, Key, KeysError};

/// What stands before the key itself, by its kind. For these it is always the same.
const P256: &[u8] = b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
const P384: &[u8] =
    b"\x30\x76\x30\x10\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x05\x2b\x81\x04\x00\x22\x03\x62\x00";
const ED25519: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// The algorithm of an RSA key, behind a head of four bytes.
const RSA: &[u8] = b"\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00";
/// A key of 2048 bits with the smallest exponent. Shorter ones verify nothing.
const RSA_MIN: usize = 292;

pub(super) fn read(text: &[u8]) -> Result<Vec<Key>, KeysError> {
    let mut keys = Vec::new();
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.map_err(|_| KeysError::Unreadable)?;
        match kind {
            SectionKind::PublicKey => keys.push(key(&der).ok_or(KeysError::Unreadable)?),
            SectionKind::PrivateKey | SectionKind::RsaPrivateKey | SectionKind::EcPrivateKey => {
                return Err(KeysError::PrivateKey);
            }
            _ => {}
        }
    }
    if keys.is_empty() { Err(KeysError::NoPublicKey) } else { Ok(keys) }
}

fn key(der: &[u8]) -> Option<Key> {
    let behind =
        |head: &[u8], bytes: usize| der.strip_prefix(head).filter(|key| key.len() == bytes);
    let (family, key) = if let Some(point) = behind(P256, 65) {
        (Family::P256, DecodingKey::from_ec_der(point))
    } else if let Some(point) = behind(P384, 97) {
        (Family::P384, DecodingKey::from_ec_der(point))
    } else if let Some(key) = behind(ED25519, 32) {
        (Family::Ed25519, DecodingKey::from_ed_der(key))
    } else if der.get(4..).is_some_and(|rest| rest.starts_with(RSA)) && der.len() >= RSA_MIN {
        // The whole of it is read where it is used.
        (Family::Rsa, DecodingKey::from_rsa_der(der))
    } else {
        return None;
    };
    Some(Key { id: None, family, only: None, decoding: key })
}
