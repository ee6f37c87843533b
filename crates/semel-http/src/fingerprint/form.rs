//! Urlencoded forms, in an order of their own.
//!
//! Fields are compared as they are spelled; only their order may be another. It may not where a
//! server could read something else then. Servers differ in this: some take `A` for `a`, `a[]` for
//! the next element of a list, `a.b` for `a_b` or `a[b]`, or the last of `a` and `a[b]` for all of
//! it; some stop after a thousand fields. So
//!
//! - names that differ in case only keep their order;
//! - all names of one root, such as `a`, `a[]` and `a[b]`, keep their order if one of them has empty
//!   brackets or leads to another;
//! - a form with a name in other characters than those that all servers take as they are, or in
//!   which a field could be two, is compared as it came.

use std::borrow::Cow;

/// Servers cut off longer forms, or refuse them.
const FIELDS_MAX: usize = 1000;

/// A field, and what its place depends on.
struct Field<'a> {
    /// As it came.
    text: &'a [u8],
    /// Its place among the others.
    place: usize,
    /// Decoded, and in lower case.
    name: Vec<u8>,
    /// Where the first bracket of the name stands, or its end.
    root_len: usize,
    /// True if its position among all fields of its root matters, not only among those of its name.
    is_bound: bool,
}

/// The fields of a form as they came, in an order that does not depend on theirs; `None` if they
/// may mean something else in another order.
pub(crate) fn fields(body: &[u8]) -> Option<Vec<&[u8]>> {
    // Some servers take it for `&`.
    if body.contains(&b';') {
        return None;
    }
    let mut fields = Vec::new();
    for (place, text) in body.split(|byte| *byte == b'&').enumerate() {
        if place == FIELDS_MAX {
            return None;
        }
        fields.push(Field::read(text, place)?);
    }
    fields.sort_unstable_by(|a, b| (a.root(), &a.name).cmp(&(b.root(), &b.name)));
    for root in fields.chunk_by_mut(|a, b| a.root() == b.root()) {
        // What a name leads to comes right after it in this order.
        let leads_on = root.windows(2).any(|pair| pair[0].leads_to(&pair[1]));
        if leads_on || root.iter().any(Field::is_list) {
            for field in root {
                field.is_bound = true;
            }
        }
    }
    fields.sort_unstable_by(|a, b| (a.bound_by(), a.place).cmp(&(b.bound_by(), b.place)));
    Some(fields.into_iter().map(|field| field.text).collect())
}

// === impl Field ===

impl<'a> Field<'a> {
    fn read(text: &'a [u8], place: usize) -> Option<Self> {
        let name_len = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
        let mut name = decoded(&text[..name_len])?.into_owned();
        name.make_ascii_lowercase();
        let root_len = name.iter().position(|byte| *byte == b'[').unwrap_or(name.len());
        let is_plain = root_len > 0 && name[..root_len].iter().all(|byte| is_plain(*byte));
        if !is_plain || !are_brackets(&name[root_len..]) {
            return None;
        }
        Some(Self { text, place, name, root_len, is_bound: false })
    }

    fn root(&self) -> &[u8] {
        &self.name[..self.root_len]
    }

    /// All fields of which this is the same keep their order.
    fn bound_by(&self) -> &[u8] {
        if self.is_bound { self.root() } else { &self.name }
    }

    /// `a[]`: which element it is depends on what came before.
    fn is_list(&self) -> bool {
        self.name.windows(2).any(|pair| pair == b"[]")
    }

    /// `a` to `a[b]`: a value and an object in one place, of which the last may win.
    fn leads_to(&self, other: &Self) -> bool {
        other.name.len() > self.name.len() && other.name.starts_with(&self.name)
    }
}

/// `*( "[" *plain "]" )`
fn are_brackets(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(inside) = rest.strip_prefix(b"[") {
        let len = inside.iter().take_while(|byte| is_plain(**byte)).count();
        match inside[len..].strip_prefix(b"]") {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

/// No server takes it for another character.
const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// A name without its escapes, unless there is one that readers disagree on.
fn decoded(name: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !name.contains(&b'%') {
        return Some(name.into());
    }
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        if *byte == b'%' {
            let [high, low, after @ ..] = after else { return None };
            decoded.push(digit(*high)? << 4 | digit(*low)?);
            rest = after;
        } else {
            decoded.push(*byte);
            rest = after;
        }
    }
    Some(decoded.into())
}

/// The value of a hexadecimal digit.
fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests;
