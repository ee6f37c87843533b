//! `Content-Type`: the grammar of RFC 9110, section 8.3, exactly, and one spelling of each type.

use std::borrow::Cow;

use http::header::{self, HeaderMap, HeaderValue};

use super::part::Part;

/// What a request says about the type of its body.
pub(crate) enum ContentType<'a> {
    Absent,
    One(MediaType<'a>),
    /// More than one, or one that breaks the grammar: readers disagree on them.
    Unclear(&'a HeaderMap),
}

/// A type with its parameters.
pub(crate) struct MediaType<'a> {
    /// `type/subtype`, in lower case.
    essence: Cow<'a, [u8]>,
    /// In the order of their names, of which each comes once.
    parameters: Vec<Parameter<'a>>,
}

struct Parameter<'a> {
    /// In lower case.
    name: Cow<'a, [u8]>,
    /// Without quotes and escapes; a charset in lower case.
    value: Cow<'a, [u8]>,
}

/// The spelling of most requests, which is compared without parsing.
const JSON: &[u8] = b"application/json";
const JSON_IN_UTF8: &[u8] = b"application/json; charset=utf-8";

/// True if there is one `Content-Type`, and it is JSON in UTF-8.
pub(crate) fn is_json(headers: &HeaderMap) -> bool {
    match ContentType::of(headers) {
        ContentType::One(media_type) => media_type.is_json(),
        ContentType::Absent | ContentType::Unclear(_) => false,
    }
}

// === impl ContentType ===

impl<'a> ContentType<'a> {
    pub(crate) fn of(headers: &'a HeaderMap) -> Self {
        let mut values = headers.get_all(header::CONTENT_TYPE).iter();
        let Some(value) = values.next() else { return Self::Absent };
        let one = if values.next().is_none() { MediaType::parse(value.as_bytes()) } else { None };
        one.map_or(Self::Unclear(headers), Self::One)
    }

    /// Adds the type. Of a multipart that is compared part by part the boundary does not count.
    pub(crate) fn push(self, is_multipart: bool, named: &mut Vec<Part<'a>>) {
        named.push(("header", Cow::Borrowed(b"content-type")));
        match self {
            Self::Absent => {}
            Self::One(media_type) => named.push(("value", media_type.spelled(is_multipart))),
            Self::Unclear(headers) => {
                let values = headers.get_all(header::CONTENT_TYPE).iter();
                named
                    .extend(values.map(|value| ("raw value", HeaderValue::as_bytes(value).into())));
            }
        }
    }
}

// === impl MediaType ===

impl<'a> MediaType<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        if matches!(text, JSON | JSON_IN_UTF8) {
            return Some(Self { essence: Cow::Borrowed(JSON), parameters: Vec::new() });
        }
        let end = text.iter().position(|byte| *byte == b';').unwrap_or(text.len());
        let essence = trim_blanks(&text[..end]);
        let slash = essence.iter().position(|byte| *byte == b'/')?;
        if !is_token(&essence[..slash]) || !is_token(&essence[slash + 1..]) {
            return None;
        }
        let parameters = parameters(&text[end..])?;
        Some(Self { essence: lower_case(essence), parameters })
    }

    /// True for a JSON type in UTF-8.
    pub(crate) fn is_json(&self) -> bool {
        (self.says_utf8_anyway() || &*self.essence == b"text/json")
            && self.value_of(b"charset").is_none_or(is_utf8)
    }

    /// JSON is UTF-8 (RFC 8259, section 8.1), and a charset that repeats it says nothing. That of
    /// `text/json`, which is not registered, may mean something to some reader.
    fn says_utf8_anyway(&self) -> bool {
        &*self.essence == JSON || self.essence.ends_with(b"+json")
    }

    /// True for a urlencoded form in a charset that all servers read alike.
    pub(crate) fn is_form(&self) -> bool {
        &*self.essence == b"application/x-www-form-urlencoded"
            && self.value_of(b"charset").is_none_or(is_utf8)
    }

    /// What stands between the parts of a multipart.
    pub(crate) fn boundary(&self) -> Option<&[u8]> {
        let is_multipart = self.essence.starts_with(b"multipart/");
        if is_multipart { self.value_of(b"boundary") } else { None }
    }

    fn value_of(&self, name: &[u8]) -> Option<&[u8]> {
        let found = self.parameters.iter().find(|parameter| &*parameter.name == name);
        found.map(|parameter| &*parameter.value)
    }

    /// Its one spelling, which is a media type again: parameters in the order of their names, and
    /// all values in quotes.
    fn spelled(self, is_multipart: bool) -> Cow<'a, [u8]> {
        if self.parameters.is_empty() {
            return self.essence;
        }
        let says_utf8_anyway = self.says_utf8_anyway();
        let says_nothing = |parameter: &Parameter<'_>| match &*parameter.name {
            b"charset" => says_utf8_anyway && is_utf8(&parameter.value),
            b"boundary" => is_multipart,
            _ => false,
        };
        let mut text = self.essence.into_owned();
        for parameter in self.parameters.iter().filter(|parameter| !says_nothing(parameter)) {
            text.push(b';');
            text.extend_from_slice(&parameter.name);
            text.extend_from_slice(b"=\"");
            for byte in &*parameter.value {
                if matches!(byte, b'"' | b'\\') {
                    text.push(b'\\');
                }
                text.push(*byte);
            }
            text.push(b'"');
        }
        text.into()
    }
}

/// `*( OWS ";" OWS [ parameter ] )`, in the order of their names. None comes twice.
fn parameters(text: &[u8]) -> Option<Vec<Parameter<'_>>> {
    let mut parameters: Vec<Parameter<'_>> = Vec::new();
    let mut rest = trim_start(text);
    while let Some(after) = rest.strip_prefix(b";") {
        rest = trim_start(after);
        if rest.is_empty() || rest.starts_with(b";") {
            continue;
        }
        let (parameter, after) = parameter(rest)?;
        let place = parameters.binary_search_by(|other| other.name.cmp(&parameter.name));
        // Readers disagree on which of two counts.
        parameters.insert(place.err()?, parameter);
        rest = trim_start(after);
    }
    rest.is_empty().then_some(parameters)
}

/// `token "=" ( token / quoted-string )`, and what follows it.
fn parameter(text: &[u8]) -> Option<(Parameter<'_>, &[u8])> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let (name, rest) = (&text[..equals], &text[equals + 1..]);
    if !is_token(name) {
        return None;
    }
    let (value, rest) = if let Some(quoted) = rest.strip_prefix(b"\"") {
        let (value, rest) = unquoted(quoted)?;
        // Some readers leave a backslash where it is. Neither of these values needs one, and what they
        // say is how the body is read.
        let is_escaped = matches!(value, Cow::Owned(_));
        if is_escaped && matches!(&*lower_case(name), b"boundary" | b"charset") {
            return None;
        }
        (value, rest)
    } else {
        let end = rest.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(rest.len());
        // Only a value in quotes may be empty.
        if end == 0 {
            return None;
        }
        (Cow::Borrowed(&rest[..end]), &rest[end..])
    };
    let name = lower_case(name);
    let value = if &*name == b"charset" { lowered(value) } else { value };
    Some((Parameter { name, value }, rest))
}

/// What a string says whose opening quote is gone, and what follows its closing one. It is borrowed if
/// there is no backslash in it.
fn unquoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, &[u8])> {
    let end = text.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
    if text[end] == b'"' {
        return Some((Cow::Borrowed(&text[..end]), &text[end + 1..]));
    }
    let mut value = text[..end].to_vec();
    let mut bytes = text.iter().enumerate().skip(end);
    while let Some((at, byte)) = bytes.next() {
        match byte {
            b'"' => return Some((value.into(), &text[at + 1..])),
            b'\\' => value.push(*bytes.next()?.1),
            byte => value.push(*byte),
        }
    }
    None
}

fn is_utf8(charset: &[u8]) -> bool {
    matches!(charset, b"utf-8" | b"utf8")
}

pub(crate) fn is_token(text: &[u8]) -> bool {
    !text.is_empty() && text.iter().all(|byte| is_token_byte(*byte))
}

const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

pub(crate) fn lower_case(text: &[u8]) -> Cow<'_, [u8]> {
    lowered(Cow::Borrowed(text))
}

fn lowered(text: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    if text.iter().any(u8::is_ascii_uppercase) { text.to_ascii_lowercase().into() } else { text }
}

/// Without the blanks around it. Those of HTTP are fewer than those of ASCII.
pub(crate) fn trim_blanks(text: &[u8]) -> &[u8] {
    let text = trim_start(text);
    let blanks = text.iter().rev().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[..text.len() - blanks]
}

fn trim_start(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    &text[blanks..]
}

#[cfg(test)]
mod tests;
