//! The compact form of a token: header, claims and signature, and what the header says.

use crate::base64url;
use crate::json::{self, Pointer, Scalar};
use crate::token::TokenRefused;

/// The largest token that is read. Those with all groups of their user have a few KiB.
pub(super) const TOKEN_MAX: usize = 16 * 1024;

/// A token taken apart. Nothing of it is to be believed yet.
pub(super) struct Compact<'a> {
    /// What the signature is about.
    pub(super) signed: &'a [u8],
    pub(super) signature: Vec<u8>,
    pub(super) claims: Vec<u8>,
    pub(super) algorithm: String,
    pub(super) key_id: Option<String>,
}

// === impl Compact ===

impl<'a> Compact<'a> {
    pub(super) fn parse(token: &'a str) -> Result<Self, TokenRefused> {
        if token.len() > TOKEN_MAX {
            return Err(TokenRefused::TooLong { max: TOKEN_MAX });
        }
        let malformed = TokenRefused::Malformed;
        let (signed, signature) = token.rsplit_once('.').ok_or(malformed.clone())?;
        let (header, claims) = signed.split_once('.').ok_or(malformed.clone())?;
        // A fourth part has a dot, which base64url has not.
        let part = |text| base64url::decode(text).ok_or(TokenRefused::Malformed);
        let (header, claims) = (part(header)?, part(claims)?);
        let find = |name: &str| {
            let pointer = Pointer::parse(name).map_err(|_| TokenRefused::Malformed)?;
            // A member twice is refused by this, too.
            json::find(&header, &pointer).map_err(|_| TokenRefused::Malformed)
        };
        // Nothing that an issuer could call critical is understood (RFC 7515, section 4.1.11).
        if find("/crit")?.is_some() {
            return Err(TokenRefused::Critical);
        }
        let Some(Scalar::String(algorithm)) = find("/alg")? else { return Err(malformed) };
        let key_id = match find("/kid")? {
            None => None,
            Some(Scalar::String(id)) => Some(id),
            Some(_) => return Err(malformed),
        };
        let signature = part(signature)?;
        Ok(Self { signed: signed.as_bytes(), signature, claims, algorithm, key_id })
    }
}
