use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::routes::octets::{Octet, octets};

#[test]
fn spellings_of_one_path_are_one() {
    for (path, expected) in [
        // Escapes.
        ("/v1/%63harges", "/v1/charges"),
        ("/%76%31/charge%73", "/v1/charges"),
        ("/a%2Db%2db%5F%7E%2e9", "/a-b-b_~.9"),
        ("/a%2fb%c3%a9", "/a%2Fb%C3%A9"),
        ("/caf\u{e9}", "/caf%C3%A9"),
        ("/a|b\"[c]^", "/a%7Cb%22%5Bc%5D%5E"),
        ("/%7bid%7D", "/{id}"),
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
        assert_eq!(merged(path), expected, "{path}");
    }
}

#[test]
fn empty_segments_stay_where_they_count() {
    for (path, expected) in [
        ("/v1//charges", "/v1//charges"),
        ("/v1/charges/", "/v1/charges/"),
        ("//%63/", "//c/"),
        ("/v1/x/../%63harges", "/v1/charges"),
        ("/a/./b/..", "/a/"),
        ("/.", "/"),
    ] {
        assert_eq!(normalised(path), expected, "{path}");
    }
}

#[test]
fn ambiguous_octets_are_kept() {
    for path in [
        "",
        "*",
        "/",
        "/v1/charges",
        "/v1/charges/",
        "/V1/Charges",
        "/v1%2Fcharges",
        "/v1/charges;x=/y",
        "/v1/..;/charges",
        "/v1/charges%3Bx",
        "/v1/%5C../charges",
        "/v1/%252e%252e/charges",
        "/%",
        "/%z",
        "/%zz",
        "/.well-known/keys",
        "/a/...",
        "/a/..b",
        "/a/b..",
        "/a/b.",
        "/a.b/c",
        "/%00",
        "/{id}",
    ] {
        assert_eq!(merged(path), path, "{path}");
    }
}

proptest! {
    /// The way of nearly every request: no change, no copy.
    #[test]
    fn a_plain_path_is_never_changed(
        path in "(/[a-zA-Z0-9_~!$&'()*+,;=:@-][a-zA-Z0-9._~;=-]{0,9}){0,6}/?",
    ) {
        prop_assert!(matches!(merged(&path), Cow::Borrowed(same) if same == path));
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
        prop_assert_eq!(merged(&spelled), plain);
    }

    #[test]
    fn a_normal_path_is_normal(path in "(/|[.]|%|%2[eEfF]|%[0-9a-f]{2}|[{}\\[\"A-Za-z]|\\PC){0,20}") {
        let path = format!("/{path}");
        for normal in [merged(&path), normalised(&path)] {
            prop_assert!(normal.starts_with('/') && normal.is_ascii());
            prop_assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
        }
        let normal = merged(&path);
        prop_assert!(!normal.contains("//"));
        // A second time nothing changes, unless what was decoded makes an escape: `%%34%31`.
        if !octets(&path).any(|octet| octet == Octet::BrokenEscape) {
            prop_assert_eq!(merged(&normal), normal.as_ref());
            let normal = normalised(&path);
            prop_assert_eq!(normalised(&normal), normal.as_ref());
        }
    }
}
