//! Headers that HTTP/2 allows, and that are ambiguous in HTTP/1.1.

use http::header::{self, HeaderMap, HeaderValue};

/// Why an HTTP/2 request would be ambiguous as HTTP/1.1.
pub(crate) fn doubt(headers: &HeaderMap) -> Option<&'static str> {
    let mut lengths = headers.get_all(header::CONTENT_LENGTH).iter();
    if lengths.next().is_some() && lengths.next().is_some() {
        return Some("the header field Content-Length comes more than once");
    }
    // A message with such a value is malformed (RFC 9113, section 8.2.1).
    if headers.values().any(has_outer_blank) {
        return Some("the value of a header field begins or ends with a blank");
    }
    None
}

fn has_outer_blank(value: &HeaderValue) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    is_blank(value.as_bytes().first()) || is_blank(value.as_bytes().last())
}

/// Puts the cookies into one field (RFC 9113, section 8.2.3): HTTP/1.1 allows no more, and a server may
/// read only the first one.
pub(crate) fn join_cookies(headers: &mut HeaderMap) {
    let mut crumbs = headers.get_all(header::COOKIE).iter();
    if crumbs.next().is_none() || crumbs.next().is_none() {
        return;
    }
    let crumbs: Vec<&[u8]> =
        headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes).collect();
    // Parts of header values, and what joins them, are a header value.
    if let Ok(joined) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
        headers.insert(header::COOKIE, joined);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(fields: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in fields {
            map.append(*name, HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn cookie_fields_are_joined() {
        let mut headers = map(&[("cookie", "a=1"), ("x", "y"), ("cookie", "b=2; c=3")]);
        join_cookies(&mut headers);
        assert_eq!(headers, map(&[("x", "y"), ("cookie", "a=1; b=2; c=3")]));
        for one in [&[("cookie", "a=1")][..], &[]] {
            let mut headers = map(one);
            join_cookies(&mut headers);
            assert_eq!(headers, map(one));
        }
    }

    #[test]
    fn ambiguous_headers_are_refused() {
        for fields in [
            &[("content-length", "3"), ("content-length", "3")][..],
            &[("x", " a")],
            &[("x", "a\t")],
            &[("x", " ")],
            &[("a", "b"), ("x", "a "), ("x", "c")],
        ] {
            assert!(doubt(&map(fields)).is_some(), "{fields:?}");
        }
        for fields in [&[("content-length", "3"), ("x", "a b"), ("y", "")][..], &[]] {
            assert_eq!(doubt(&map(fields)), None, "{fields:?}");
        }
    }
}
