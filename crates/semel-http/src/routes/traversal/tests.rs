use proptest::prelude::*;

use super::*;
use crate::routes::servers::{SERVERS, leads_above};

#[test]
fn paths_above_the_root_are_found_in_all_spellings() {
    for path in [
        "/..",
        "/../a",
        "/a/../../b",
        "/%2e%2E/a",
        "/a//../../b",
        "/..%2Fa",
        "/%2e%2e%5ca",
        "/..\\a",
        "/a/..%2f../b",
        "/..;/a",
        "/..%3B/a",
        "/%3bx/../a",
        "/%2e.;x=1/a",
        "/;x/../a",
        "/a/;x/../../b",
        "/a%5Cb%2F../../c",
        "/a%5cb%2f..%2f..%2fc",
        "/a\\b/../../c",
        "/a/..%00",
        "/%c0%ae%c0%ae/a",
        "/%u002e%u002e/a",
        "/%uff0e%uff0e%u2215a",
        "/a%",
    ] {
        assert!(leaves_root(path), "{path}");
    }
    for path in ["/", "/a/..", "/a/../b", "/a..b/..c", "/...", "/%2e", "*", "/a%2F..%c3%a9"] {
        assert!(!leaves_root(path), "{path}");
    }
}

#[test]
fn dot_dot_after_an_empty_segment_is_found() {
    for path in ["/a//../b", "/v1/x//../../charges", "//%2e%2E/b", "/a//b/.%2e/c", "/a//.."] {
        assert!(goes_up_after_empty_segment(path), "{path}");
    }
    for path in ["/", "//", "/a//b", "/a/../b", "/../a//b", "/a//...", "/a//b..", "*"] {
        assert!(!goes_up_after_empty_segment(path), "{path}");
    }
}

proptest! {
    /// The upstream's base path cannot be left, whichever way it reads paths.
    #[test]
    fn no_server_leaves_the_root(
        path in "(/|//|[.]{2}|;|%2[eEfF]|%5[cC]|%3[bB]|%00|%c0%a[ef]|\\\\|[a-c]){0,12}",
    ) {
        let path = format!("/{path}");
        for &server in SERVERS {
            prop_assert!(leaves_root(&path) || !leads_above(server, &path), "{} {:?}", path, server);
        }
    }
}
