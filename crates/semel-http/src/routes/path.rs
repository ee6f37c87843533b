//! One spelling for all spellings of a path.

use std::borrow::Cow;

/// The path as most servers read it: escapes of unreserved characters undone (RFC 3986, 6.2.2.2),
/// repeated slashes taken as one, then `.` and `..` resolved (5.2.4). To many servers `/%63harges`,
/// `//charges`, `/./charges` and `/x/../charges` are all `/charges`, so none of them must get
/// around its route.
///
/// Slashes come before dots, as nginx and Go have it: `/a//../b` is `/b`. All other escapes stay,
/// so `%2F` is no slash. Nothing is decoded twice.
pub(crate) fn normalised(path: &str) -> Cow<'_, str> {
    if is_plain(path.as_bytes()) {
        Cow::Borrowed(path)
    } else {
        Cow::Owned(resolved(&unescaped(path)))
    }
}

/// Is there nothing to do? So it is for nearly every request, hence one pass without a copy, and
/// without an early end: the compiler then looks at many bytes at once.
fn is_plain(path: &[u8]) -> bool {
    let (mut is_plain, mut before) = (true, 0);
    for &byte in path {
        let is_odd = byte == b'%' || before == b'/' && matches!(byte, b'/' | b'.');
        is_plain &= !is_odd;
        before = byte;
    }
    is_plain
}

/// The path with escapes of unreserved characters undone.
fn unescaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut rest = path;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match rest.get(1..3).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => {
                out.push(char::from(byte));
                rest = &rest[3..];
            }
            _ => {
                out.push('%');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// The path without empty segments, `.` and `..`. If it leads to a directory, it ends with a slash.
fn resolved(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut is_directory = false;
    for segment in path.split('/') {
        is_directory = matches!(segment, "" | "." | "..");
        match segment {
            "" | "." => {}
            ".." => out.truncate(out.rfind('/').unwrap_or(0)),
            name => {
                out.push('/');
                out.push_str(name);
            }
        }
    }
    if is_directory {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_of_one_path_are_one() {
        for (path, expected) in [
            // Escapes.
            ("/v1/%63harges", "/v1/charges"),
            ("/%76%31/charge%73", "/v1/charges"),
            ("/a%2Db%2db%5F%7E%2e9", "/a-b-b_~.9"),
            // Slashes.
            ("//v1/charges", "/v1/charges"),
            ("/v1////charges", "/v1/charges"),
            ("/v1/charges//", "/v1/charges/"),
            ("//", "/"),
            // Dots.
            ("/v1/./charges", "/v1/charges"),
            ("/v1/x/../charges", "/v1/charges"),
            ("/v1/x/y/../../charges", "/v1/charges"),
            ("/v1/../../../v1/charges", "/v1/charges"),
            ("/v1/charges/.", "/v1/charges/"),
            ("/v1/charges/x/..", "/v1/charges/"),
            ("/.", "/"),
            ("/..", "/"),
            ("/a/..", "/"),
            // Together.
            ("/v1/%2e/charges", "/v1/charges"),
            ("/v1/x/%2E%2e/charges", "/v1/charges"),
            ("/v1/x/.%2e//./charges", "/v1/charges"),
            ("/v1/x//../charges", "/v1/charges"),
            ("/.//v1/%2e%2e/v1//./charges", "/v1/charges"),
        ] {
            assert_eq!(normalised(path), expected, "{path}");
        }
    }

    #[test]
    fn what_may_mean_something_else_stays() {
        for path in [
            "",
            "*",
            "/",
            "/v1/charges",
            "/v1/charges/",
            "/V1/Charges",
            "/v1%2Fcharges",
            "/v1%2fcharges/%2e%",
            "/v1/charges;x=/y",
            "/v1/..;/charges",
            "/v1/charges%3Bx",
            "/v1\\..\\charges",
            "/v1/%5c../charges",
            "/v1/%252e%252e/charges",
            "/%",
            "/%z",
            "/%zz",
            "/%\u{e9}",
            "/.well-known/keys",
            "/a/...",
            "/a/..b",
            "/a/b..",
            "/a/b.",
            "/a.b/c",
            "/%00",
        ] {
            let expected = path.replace("%2e", ".");
            assert_eq!(normalised(path), expected, "{path}");
        }
    }

    proptest! {
        /// The way of nearly every request: no change, no copy.
        #[test]
        fn a_plain_path_is_never_changed(
            path in "(/[a-zA-Z0-9_~!$&'()*+,;=:@-][a-zA-Z0-9._~;=-]{0,9}){0,6}/?",
        ) {
            prop_assert!(matches!(normalised(&path), Cow::Borrowed(same) if same == path));
        }

        /// However it is spelled, it stays what it is.
        #[test]
        fn every_spelling_is_found_out(
            segments in proptest::collection::vec(
                ("[a-z0-9._~-]{0,3}[a-z0-9]", any::<u32>(), 0..6_usize), 1..6,
            ),
        ) {
            let before = ["/", "//", "/./", "/x/../", "/%2e//", "/x/y/.%2E/%2e%2e///"];
            let (mut plain, mut spelled) = (String::new(), String::new());
            for (name, escapes, at) in segments {
                plain.extend(["/", &name]);
                spelled.push_str(before[at]);
                for (at, byte) in name.bytes().enumerate() {
                    match escapes >> at & 1 {
                        0 => spelled.push(char::from(byte)),
                        _ => write!(spelled, "%{byte:02x}").unwrap(),
                    }
                }
            }
            prop_assert_eq!(normalised(&spelled), plain);
        }

        #[test]
        fn no_path_panics_and_none_grows(path in "(/|[.]|%|%2[eEfF]|%[0-9a-f]{2}|\\PC){0,20}") {
            let path = format!("/{path}");
            let normal = normalised(&path);
            prop_assert!(normal.len() <= path.len() && normal.starts_with('/'));
            prop_assert!(!normal.contains("//"));
            prop_assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
        }
    }
}
