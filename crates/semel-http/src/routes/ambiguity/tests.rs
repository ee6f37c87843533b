use proptest::prelude::*;

use super::*;
use crate::routes::path::merged;
use crate::routes::servers::{decoded, lenient, strict};

#[test]
fn ambiguous_paths_are_named() {
    for (path, expected) in [
        ("/a%2Fb", Ambiguity::EncodedSlash),
        ("/a%2fb", Ambiguity::EncodedSlash),
        ("/a%5cb", Ambiguity::EncodedSlash),
        ("/a\\b", Ambiguity::Backslash),
        ("/a%5c%0a", Ambiguity::Control),
        ("/a%00.png", Ambiguity::Control),
        ("/a%7F", Ambiguity::Control),
        ("/a\u{7f}", Ambiguity::Control),
        ("/../a", Ambiguity::AboveRoot),
        ("/a/%2e%2E/../b", Ambiguity::AboveRoot),
        ("/..%2Fa", Ambiguity::AboveRoot),
        ("/a//../b", Ambiguity::UpAfterEmptySegment),
        ("/a/%2F../b", Ambiguity::UpAfterEmptySegment),
        ("/a/;x/../b", Ambiguity::UpAfterEmptySegment),
        ("/;x/../b", Ambiguity::AboveRoot),
        ("/a%5Cb/..%2Fc", Ambiguity::UpBesideEncodedSlash),
        ("/a%2Fb/../c", Ambiguity::UpBesideEncodedSlash),
        ("/a/%c0%af/b", Ambiguity::Overlong),
        ("/%C0%AE%c0%ae/b", Ambiguity::Overlong),
        ("/%e0%80%af", Ambiguity::Overlong),
        ("/%f0%80%80%af", Ambiguity::Overlong),
        ("/a/..;/b", Ambiguity::DotsWithParameter),
        ("/a/b/..;x=1/c", Ambiguity::DotsWithParameter),
        ("/a/%2e%3Bx/c", Ambiguity::DotsWithParameter),
        ("/a%2f.%3bx/c", Ambiguity::DotsWithParameter),
        ("/100%", Ambiguity::BrokenEscape),
        ("/%zz", Ambiguity::BrokenEscape),
    ] {
        assert_eq!(Ambiguity::of(path), Some(expected), "{path}");
        assert!(is_suspicious(path) || path.contains("//"), "{path}");
    }
    for path in [
        "/",
        "*",
        "/a/./b",
        "/a/x/../b",
        "/%63harges",
        "/caf\u{e9}/%c3%A9",
        "/a//b/",
        "/a//b/.well-known",
        "/%C0A/%E0%A4%A7/%F0%9F%98%80/%c3%80%80",
        "/a;x=..",
        "/a/..b;c",
        "/%25zz",
    ] {
        assert_eq!(Ambiguity::of(path), None, "{path}");
    }
}

proptest! {
    /// A path in which no doubt was found is one path to the most lenient server and to the most
    /// strict one, and the route is looked for by that.
    #[test]
    fn servers_agree_on_a_path_without_ambiguity(
        path in "(/|//|[.]{1,3}|;|%2[eEfF]|%5[cC]|%3[bB]|%[0-9a-f]{2}|%|\\\\|[a-cA-C]|\u{e9}){0,12}",
    ) {
        let path = format!("/{path}");
        if Ambiguity::of(&path).is_none() {
            prop_assert_eq!(lenient(&path), strict(&path), "{}", path);
            prop_assert_eq!(decoded(&merged(&path)), strict(&path), "{}", path);
        }
    }
}
