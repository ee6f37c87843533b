//! JSON as far as fingerprints and keys need it: a canonical form that never confuses two texts
//! that could mean different things, and look-ups by JSON Pointer.
//!
//! The grammar is that of RFC 8259, exactly. In the canonical form
//!
//! 1. white space, the order of an object's members and the spelling of strings (`"\u0041"` for
//!    `"A"`, `"\/"` for `"/"`) make no difference;
//! 2. all else does: numbers keep their characters, so `1`, `1.0` and `1e0` are three values, and
//!    strings are not normalised;
//! 3. what an ignored [`Pointer`] names is left out.
//!
//! A text that readers disagree on, such as one with a member twice, has no canonical form and
//! yields no value.
//!
//! ```
//! use semel_http::json::{Pointer, Scalar, canonical, find};
//!
//! let ignore = [Pointer::parse("/sent_at")?];
//! let first = br#"{"amount": 10.50, "to": "A", "sent_at": 1}"#;
//! let again = br#"{"to":"\u0041","sent_at":2,"amount":10.50}"#;
//! assert_eq!(canonical(first, &ignore)?, canonical(again, &ignore)?);
//! assert_ne!(canonical(first, &[])?, canonical(again, &[])?);
//!
//! let amount = find(first, &Pointer::parse("/amount")?)?;
//! assert_eq!(amount, Some(Scalar::Number("10.50".into())));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draft;
mod number;
mod pointer;
mod reader;
mod string;
mod trail;

pub use self::pointer::{Pointer, PointerError};

use self::reader::{OnHit, Reader};

/// How many objects and arrays may lie within each other. It also bounds the reader's stack.
const DEPTH_MAX: usize = 128;

/// A value found by [`find`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scalar {
    /// A string, without its escapes.
    String(String),
    /// A number, with the characters it was written with.
    Number(String),
    /// `true`, `false`, `null`, an object or an array: nothing that could be a key.
    Other,
}

/// Why a text has no canonical form. Compare such texts byte by byte.
///
/// No variant carries a part of the text: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCanonical {
    /// It is empty, breaks the grammar, starts with a byte order mark, or goes on after its value.
    #[error("the text is not JSON at byte {at}; send one value as RFC 8259 has it")]
    Syntax {
        /// Zero-based position of the first byte that cannot stand there.
        at: usize,
    },
    /// It is not UTF-8.
    #[error("the text is not UTF-8, the only encoding of JSON between systems")]
    NotUtf8,
    /// A string has half a surrogate pair, which is no character.
    #[error("a string has half of a surrogate pair; escape both halves or none")]
    LoneSurrogate,
    /// An object has two members of one name, and readers disagree on which of them counts.
    #[error("an object has two members of the same name; send each name once")]
    DuplicateMember,
    /// Its objects and arrays lie too deep within each other.
    #[error("the text is nested more than {max} levels deep")]
    TooDeep {
        /// The most levels that are read.
        max: usize,
    },
}

/// The canonical form of a JSON text: equal for two texts exactly when they have the same value,
/// apart from what `ignore` names.
///
/// An ignored member counts as absent. An ignored element of an array keeps its place, so that the
/// others keep theirs. A pointer that leads nowhere is no error. What is ignored must still be
/// correct JSON. The bytes are meant for hashing; they are not JSON.
///
/// Costs one pass over the text, a sort of each object's members and a copy, so O(n log n) for a
/// text of n bytes; each value beside which an ignored pointer passes costs a comparison more.
pub fn canonical(body: &[u8], ignore: &[Pointer]) -> Result<Vec<u8>, NotCanonical> {
    let mut reader = Reader::new(body, ignore, OnHit::LeaveOut)?;
    reader.read()?;
    Ok(reader.into_canonical())
}

/// The value that `pointer` leads to, or `None` if it leads nowhere.
///
/// All of the text is checked, as [`canonical`] does: one that another reader could see otherwise
/// is an error, even if the doubt lies elsewhere in it.
pub fn find(body: &[u8], pointer: &Pointer) -> Result<Option<Scalar>, NotCanonical> {
    let pointers = std::slice::from_ref(pointer);
    let mut reader = Reader::new(body, pointers, OnHit::Take(None))?;
    reader.read()?;
    Ok(reader.into_taken())
}

#[cfg(test)]
mod tests;
