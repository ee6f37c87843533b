//! Public keys in the place of a secret: any client could make tokens by them.

use rustls_pki_types::pem::{PemObject as _, SectionKind};

/// What public keys of SSH begin with.
const SSH: [&[u8]; 5] = [b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-", b"---- BEGIN SSH2"];

/// True if the bytes contain PEM.
pub(super) fn is_pem(text: &[u8]) -> bool {
    text.windows(11).any(|part| part == b"-----BEGIN ")
}

/// True for a key pair, a part of one or a certificate, in PEM, DER, base64 of DER, or SSH's format.
pub(super) fn is_public(bytes: &[u8]) -> bool {
    is_pem(bytes)
        || is_ssh(bytes)
        || is_der(bytes)
        || decoded(bytes).is_some_and(|der| is_der(&der))
}

/// A kind, a blank, and base64 of the kind.
fn is_ssh(bytes: &[u8]) -> bool {
    SSH.iter().any(|kind| bytes.starts_with(kind)) && bytes.contains(&b' ')
}

/// Is all of it a sequence whose first member is a sequence (a public key, a certificate) or a number (the modulus of
/// an RSA key, the version of a private one)? Of random secrets one in sixteen millions is.
fn is_der(bytes: &[u8]) -> bool {
    let long = |length: &[u8]| length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
    let (length, members) = match bytes {
        [0x30, 0x81, length, members @ ..] => (usize::from(*length), members),
        [0x30, 0x82, high, low, members @ ..] => (long(&[*high, *low]), members),
        [0x30, length, members @ ..] if *length < 0x80 => (usize::from(*length), members),
        _ => return false,
    };
    // An editor may have ended the last line.
    let rest = members.len().checked_sub(length).map(|_| &members[length..]);
    matches!(members, [0x30 | 0x02, ..]) && matches!(rest, Some(b"" | b"\n" | b"\r\n"))
}

/// What stands in base64 between the lines of PEM.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(text).ok()?;
    let pem = format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", text.trim());
    Some(<(SectionKind, Vec<u8>)>::from_pem_slice(pem.as_bytes()).ok()?.1)
}
