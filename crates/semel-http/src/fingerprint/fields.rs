//! The header fields that change what a request asks for.

use http::header::{HeaderMap, HeaderName};

use super::part::Part;

/// Those that count on every route if they are there, in the order in which they are hashed.
/// `Content-Type` and `Content-Encoding` count too, and are read elsewhere.
const COUNTED: [&str; 8] = [
    "content-range",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "prefer",
    "x-http-method",
    "x-http-method-override",
    "x-method-override",
];

/// The bits of [`Present`] after those of [`COUNTED`].
const CONTENT_TYPE: u16 = 8;
const CONTENT_ENCODING: u16 = 9;
/// There is a name with an underscore, which is another one to some servers.
const UNDERSCORES: u16 = 10;

/// Which fields that count on every route a request has, as bits.
#[derive(Clone, Copy)]
pub(crate) struct Present(u16);

/// Adds the fields that are compared as they came: those that always count, then `more`, then those that
/// are one of them to some servers, but for underscores in their names.
///
/// A field of `more` that is not there is named all the same, as it always was.
pub(crate) fn push_fields<'a>(
    headers: &'a HeaderMap,
    present: Present,
    more: &'a [HeaderName],
    named: &mut Vec<Part<'a>>,
) {
    for (bit, name) in COUNTED.iter().enumerate() {
        if present.0 & 1 << bit != 0 {
            push(headers, name, named);
        }
    }
    for name in more {
        if bit_of_exact(name.as_str()).is_none() {
            push(headers, name.as_str(), named);
        }
    }
    if present.0 & 1 << UNDERSCORES != 0 || more.iter().any(has_underscore) {
        push_look_alikes(headers, more, named);
    }
}

/// To CGI, WSGI and their kin `If_Match` is `If-Match`. To others it is not, so it keeps its name.
fn push_look_alikes<'a>(headers: &'a HeaderMap, more: &[HeaderName], named: &mut Vec<Part<'a>>) {
    let is_counted =
        |name: &HeaderName| bit_of_exact(name.as_str()).is_some() || more.contains(name);
    let is_like = |name: &HeaderName| {
        let hyphens = with_hyphens(name);
        bit_of_exact(&hyphens).is_some() || more.iter().any(|more| with_hyphens(more) == hyphens)
    };
    let found = headers.keys().filter(|name| !is_counted(name) && is_like(name));
    let mut found: Vec<&str> = found.map(HeaderName::as_str).collect();
    found.sort_unstable();
    for name in found {
        push(headers, name, named);
    }
}

fn has_underscore(name: &HeaderName) -> bool {
    name.as_str().contains('_')
}

fn with_hyphens(name: &HeaderName) -> String {
    name.as_str().replace('_', "-")
}

fn push<'a>(headers: &'a HeaderMap, name: &'a str, named: &mut Vec<Part<'a>>) {
    named.push(("header", name.as_bytes().into()));
    let values = headers.get_all(name).iter();
    named.extend(values.map(|value| ("value", value.as_bytes().into())));
}

fn bit_of(name: &HeaderName) -> Option<u16> {
    let exact = bit_of_exact(name.as_str());
    exact.or_else(|| has_underscore(name).then_some(UNDERSCORES))
}

/// By their texts, which the compiler tells apart by length and then at once.
fn bit_of_exact(name: &str) -> Option<u16> {
    Some(match name {
        "content-range" => 0,
        "if-match" => 1,
        "if-none-match" => 2,
        "if-unmodified-since" => 3,
        "prefer" => 4,
        "x-http-method" => 5,
        "x-http-method-override" => 6,
        "x-method-override" => 7,
        "content-type" => CONTENT_TYPE,
        "content-encoding" => CONTENT_ENCODING,
        _ => return None,
    })
}

// === impl Present ===

impl Present {
    /// Most requests have none of them: looking at the names that are there is cheaper than asking
    /// for each that might be.
    pub(crate) fn among(headers: &HeaderMap) -> Self {
        let bits = headers.keys().filter_map(bit_of);
        Self(bits.fold(0, |present, bit| present | 1 << bit))
    }

    pub(crate) const fn has_type(self) -> bool {
        self.0 & 1 << CONTENT_TYPE != 0
    }

    pub(crate) const fn has_coding(self) -> bool {
        self.0 & 1 << CONTENT_ENCODING != 0
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    fn names() -> impl Iterator<Item = HeaderName> {
        let read = ["content-type", "content-encoding"];
        COUNTED.into_iter().chain(read).map(HeaderName::from_static)
    }

    #[test]
    fn each_field_has_the_bit_of_its_place() {
        for (bit, name) in names().enumerate() {
            assert_eq!(bit_of(&name).map(usize::from), Some(bit), "{name}");
        }
        assert_eq!(bit_of(&HeaderName::from_static("accept")), None);
        assert_eq!(bit_of(&HeaderName::from_static("if_match")), Some(UNDERSCORES));
    }

    #[test]
    fn present_headers_are_found_in_one_pass() {
        let mut headers = HeaderMap::new();
        let mut bits = 0;
        for (bit, name) in names().enumerate() {
            assert_eq!(Present::among(&headers).0, bits);
            headers.insert(name, HeaderValue::from_static("x"));
            bits |= 1 << bit;
        }
        assert_eq!(Present::among(&headers).0, bits);
        let present = Present::among(&headers);
        assert!(present.has_type() && present.has_coding());
    }
}
