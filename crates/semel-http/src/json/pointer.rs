//! JSON Pointer (RFC 6901): the name of one place within a JSON text.

use std::fmt;

/// A JSON Pointer, such as `/order/lines/0/price`. The empty one names the whole text.
///
/// In a name, `~0` stands for `~` and `~1` for `/`. A number names both an element of an array and
/// a member of that name; `-`, the place after the last element, never leads anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    text: Box<str>,
    tokens: Box<[Token]>,
}

/// One step of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    name: Box<str>,
    /// The step as a place in an array, if it can be one.
    index: Option<usize>,
}

/// Why a text is not a JSON Pointer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PointerError {
    /// Something else than a slash comes first.
    #[error("the pointer does not start with '/'; write \"/name\", or \"\" for the whole text")]
    NoSlash,
    /// A tilde that is no escape.
    #[error("the '~' at byte {at} is no escape; write ~0 for '~' and ~1 for '/'")]
    BadEscape {
        /// Zero-based position within the text.
        at: usize,
    },
}

// === impl Pointer ===

impl Pointer {
    /// Reads a pointer in its string form, not in that of a URI fragment.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(PointerError::NoSlash);
        }
        if let Some(at) = bad_escape(text) {
            return Err(PointerError::BadEscape { at });
        }
        // The text before the first slash is empty and no step.
        let tokens = text.split('/').skip(1).map(Token::new).collect();
        Ok(Self { text: text.into(), tokens })
    }

    pub(super) fn tokens(&self) -> &[Token] {
        &self.tokens
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The position of the first tilde that is not followed by 0 or 1.
fn bad_escape(text: &str) -> Option<usize> {
    let mut tildes = text.match_indices('~');
    tildes.find(|(at, _)| !text[at + 1..].starts_with(['0', '1'])).map(|(at, _)| at)
}

// === impl Token ===

impl Token {
    fn new(escaped: &str) -> Self {
        // In this order, or "~01" would become "/" and not "~1".
        let name = escaped.replace("~1", "/").replace("~0", "~");
        Self { index: array_index(&name), name: name.into_boxed_str() }
    }

    pub(super) fn is_name(&self, name: &[u8]) -> bool {
        self.name.as_bytes() == name
    }

    pub(super) fn is_index(&self, index: usize) -> bool {
        self.index == Some(index)
    }
}

/// Digits without a leading zero. An index too large for the machine fits no array either.
fn array_index(name: &str) -> Option<usize> {
    let is_digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let is_plain = name == "0" || !name.starts_with('0');
    if is_digits && is_plain { name.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        let pointer = Pointer::parse(text).unwrap();
        pointer.tokens.iter().map(|token| token.name.to_string()).collect()
    }

    #[test]
    fn steps_are_split_and_unescaped() {
        assert_eq!(names(""), [""; 0]);
        assert_eq!(names("/"), [""]);
        assert_eq!(names("/a/b"), ["a", "b"]);
        assert_eq!(names("//a/"), ["", "a", ""]);
        assert_eq!(names("/a~1b/m~0n"), ["a/b", "m~n"]);
        assert_eq!(names("/~01/~10"), ["~1", "/0"]);
        assert_eq!(names("/é %22\"\\"), ["é %22\"\\"]);
    }

    #[test]
    fn invalid_pointers_are_refused() {
        for text in ["a", "#/a", " /a", "~0", "a/b"] {
            assert_eq!(Pointer::parse(text), Err(PointerError::NoSlash), "{text}");
        }
        for (text, at) in [("/~", 1), ("/a~", 2), ("/~2", 1), ("/~0~/b", 3), ("/~~0", 1)] {
            assert_eq!(Pointer::parse(text), Err(PointerError::BadEscape { at }), "{text}");
        }
    }

    #[test]
    fn the_text_comes_back() {
        for text in ["", "/", "/a~1b/~01/0", "/ö//"] {
            assert_eq!(Pointer::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn only_plain_digits_are_an_index() {
        assert_eq!(array_index("0"), Some(0));
        assert_eq!(array_index("10"), Some(10));
        for name in ["", "-", "00", "01", "+1", "-1", "1.0", "1e0", "٣", "99999999999999999999999"]
        {
            assert_eq!(array_index(name), None, "{name}");
        }
    }
}
