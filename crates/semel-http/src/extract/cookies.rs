//! Cookies as an identity.

use http::header::{self, HeaderMap};

use crate::source::CookieName;

/// All values of a cookie. Which of two counts is the server's to say, so both do.
pub(crate) fn cookies<'a>(
    headers: &'a HeaderMap,
    name: &CookieName,
) -> impl Iterator<Item = &'a [u8]> {
    let pairs = headers.get_all(header::COOKIE).iter();
    let pairs = pairs.flat_map(|value| value.as_bytes().split(|byte| *byte == b';'));
    pairs.filter_map(move |pair| {
        let at = pair.iter().position(|byte| *byte == b'=')?;
        let (found, value) = (pair[..at].trim_ascii(), pair[at + 1..].trim_ascii());
        (found == name.as_str().as_bytes() && !value.is_empty()).then_some(value)
    })
}
