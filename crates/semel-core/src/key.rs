//! The client's idempotency key: the only way in from text.

use std::fmt;
use std::time::Duration;

use crate::Timestamp;
use crate::digest::{PartsHasher, hex};

/// The client's idempotency key, validated and normalised.
///
/// A key is 1 to [`KeyLimits::max_len`] visible ASCII characters. One that is shaped like a UUID is
/// lower-cased, because UUIDs are compared without regard to case; all others are kept as they are.
///
/// ```
/// use semel_core::Key;
///
/// let bare = Key::parse("order-1")?;
/// let quoted = Key::parse(r#""order-1""#)?;      // a Structured Field string, as the IETF draft has it
/// assert_eq!(bare, quoted);
///
/// let upper = Key::parse("9B2E6C1C-3E0B-4F0E-9A55-0C5B8C3F1A11")?;
/// assert_eq!(upper.as_str(), "9b2e6c1c-3e0b-4f0e-9a55-0c5b8c3f1a11");
/// # Ok::<(), semel_core::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key(Box<str>);

/// Which keys are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// The most characters after unquoting.
    pub max_len: usize,
    /// The required shape.
    pub format: KeyFormat,
}

/// The required shape of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyFormat {
    /// Any visible ASCII characters.
    #[default]
    Any,
    /// A UUID in its usual form of 36 characters.
    Uuid,
}

/// A stretch of time, for derived keys that may come again later with new effect.
#[derive(Clone, Copy, Debug)]
pub struct TimeWindow {
    /// Any moment within the window.
    pub at: Timestamp,
    /// How long each window lasts; windows start at multiples of it since the Unix epoch.
    pub width: Duration,
}

/// Why a text is not a key. No variant carries the text: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Nothing was there, or only white space or empty quotes.
    #[error("the key is empty; send 1 to {max_len} visible ASCII characters, for example a UUID")]
    Empty {
        /// The limit in force.
        max_len: usize,
    },
    /// More characters than the limit.
    #[error("the key has {len} characters, and at most {max_len} are accepted")]
    TooLong {
        /// Its length after unquoting.
        len: usize,
        /// The limit in force.
        max_len: usize,
    },
    /// A space, a control character or a byte outside ASCII.
    #[error("the key has a character that is not visible ASCII at position {at}")]
    BadCharacter {
        /// Zero-based position within the text.
        at: usize,
    },
    /// An opening quote without its end, a bad escape, or something after the closing quote.
    #[error("the key starts with a quote but is not a complete quoted string")]
    BadQuotes,
    /// `key_format = "uuid"` and it is none.
    #[error("the key is not a UUID, and this route accepts nothing else")]
    NotUuid,
    /// A composite key needs at least one part, and no part may be empty or contain a colon.
    #[error("part {index} of the composite key is empty or contains a colon")]
    BadPart {
        /// Zero-based number of the part.
        index: usize,
    },
}

// === impl KeyLimits ===

impl Default for KeyLimits {
    fn default() -> Self {
        Self { max_len: 128, format: KeyFormat::Any }
    }
}

// === impl Key ===

impl Key {
    /// Reads a key in either header form, within the default limits.
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        Self::parse_header(text.as_bytes(), KeyLimits::default())
    }

    /// Reads the value of one header field: the bare form, or the Structured Field string of the
    /// IETF draft. Both name the same key. White space around it is ignored, as HTTP has it.
    pub fn parse_header(value: &[u8], limits: KeyLimits) -> Result<Self, KeyError> {
        let value = value.trim_ascii();
        let text = match value {
            [b'"', quoted @ ..] => unquote(quoted)?,
            bare => bare.to_vec(),
        };
        Self::validated(text, limits)
    }

    /// A key from 16 random bytes, as a version 4 UUID.
    pub fn random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let digits = hex(&bytes);
        let groups =
            [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        Self(groups.join("-").into_boxed_str())
    }

    /// A key derived from the operation: the same user, action and payload (and time window) give
    /// the same key, so a client that lost its memory still retries safely.
    pub fn derived(user: &str, action: &str, payload: &[u8], window: Option<TimeWindow>) -> Self {
        let hasher = PartsHasher::new("semel derived key 1")
            .part(user.as_bytes())
            .part(action.as_bytes())
            .part(payload);
        let hasher = match window {
            None => hasher,
            Some(window) => hasher
                .part(&window.width_millis().to_be_bytes())
                .part(&window.number().to_be_bytes()),
        };
        Self(hex(&hasher.finish()).into_boxed_str())
    }

    /// A key that people can read, such as `order:12345:charge`.
    ///
    /// A part must not contain the colon that joins them: `("a:b", "c")` and `("a", "b:c")` would
    /// be one key for two operations.
    pub fn composite<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, KeyError> {
        let parts: Vec<&str> = parts.into_iter().collect();
        let bad = |part: &&str| part.is_empty() || part.contains(':');
        if let Some(index) = parts.iter().position(bad) {
            return Err(KeyError::BadPart { index });
        }
        Self::validated(parts.join(":").into_bytes(), KeyLimits::default())
    }

    /// The normalised text, for passing on to an upstream. Not for logs, metrics or stores.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The value of a header field that names this key: bare, unless it starts with a quote and
    /// would be taken for the quoted form.
    pub fn to_header(&self) -> String {
        if self.0.starts_with('"') {
            let escaped = self.0.replace('\\', "\\\\").replace('"', "\\\"");
            format!("\"{escaped}\"")
        } else {
            self.0.to_string()
        }
    }

    fn validated(text: Vec<u8>, limits: KeyLimits) -> Result<Self, KeyError> {
        let max_len = limits.max_len;
        if text.is_empty() {
            return Err(KeyError::Empty { max_len });
        }
        if let Some(at) = text.iter().position(|byte| !byte.is_ascii_graphic()) {
            return Err(KeyError::BadCharacter { at });
        }
        if text.len() > max_len {
            return Err(KeyError::TooLong { len: text.len(), max_len });
        }
        let is_uuid = is_uuid(&text);
        if limits.format == KeyFormat::Uuid && !is_uuid {
            return Err(KeyError::NotUuid);
        }
        let text = if is_uuid { text.to_ascii_lowercase() } else { text };
        // Only ASCII is left, which is UTF-8.
        Ok(Self(String::from_utf8_lossy(&text).into_owned().into_boxed_str()))
    }
}

/// Shows no character of the key: keys may be secrets and end up in logs (trap 24).
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} characters)", self.0.len())
    }
}

/// The content of a Structured Field string after its opening quote.
fn unquote(quoted: &[u8]) -> Result<Vec<u8>, KeyError> {
    let mut text = Vec::with_capacity(quoted.len());
    let mut bytes = quoted.iter();
    while let Some(&byte) = bytes.next() {
        match byte {
            b'"' if bytes.as_slice().is_empty() => return Ok(text),
            b'"' => return Err(KeyError::BadQuotes),
            b'\\' => match bytes.next() {
                Some(&escaped @ (b'"' | b'\\')) => text.push(escaped),
                _ => return Err(KeyError::BadQuotes),
            },
            byte => text.push(byte),
        }
    }
    Err(KeyError::BadQuotes)
}

/// Whether the text is 8-4-4-4-12 hexadecimal digits.
fn is_uuid(text: &[u8]) -> bool {
    text.len() == 36
        && text.iter().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => *byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

// === impl TimeWindow ===

impl TimeWindow {
    fn width_millis(self) -> u64 {
        u64::try_from(self.width.as_millis()).unwrap_or(u64::MAX).max(1)
    }

    fn number(self) -> u64 {
        self.at.as_millis() / self.width_millis()
    }
}

#[cfg(test)]
mod tests;
