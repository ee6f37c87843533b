//! Any text as the path of a request.
#![no_main]

use libfuzzer_sys::fuzz_target;

// Without the rest of the crate, to which these modules are private.
#[path = "../../crates/semel-http/src/routes/octets.rs"]
#[allow(dead_code, reason = "the routes use the rest")]
mod octets;

#[path = "../../crates/semel-http/src/routes/reading.rs"]
#[allow(dead_code, reason = "the routes use the rest")]
mod reading;

#[path = "../../crates/semel-http/src/routes/path.rs"]
#[allow(dead_code, reason = "the routes use the rest")]
mod path;

#[path = "../../crates/semel-http/src/routes/traversal.rs"]
#[allow(dead_code, reason = "the routes use the rest")]
mod traversal;

#[path = "../../crates/semel-http/src/routes/ambiguity.rs"]
#[allow(dead_code, reason = "the routes use the rest")]
mod ambiguity;

#[path = "../../crates/semel-http/src/routes/servers.rs"]
#[allow(dead_code, reason = "the tests of the routes use the rest")]
mod servers;

use ambiguity::Ambiguity;
use path::{merged, normalised};
use servers::{SERVERS, decoded, leads_above, lenient, strict};
use traversal::leaves_root;

fuzz_target!(|path: &str| {
    let path = format!("/{path}");
    // What can be in a request.
    if path.contains(['?', '#']) {
        return;
    }
    for normal in [merged(&path), normalised(&path)] {
        assert!(normal.starts_with('/') && normal.is_ascii());
        assert!(normal.split('/').all(|segment| segment != "." && segment != ".."));
    }
    assert!(!merged(&path).contains("//"));
    if !leaves_root(&path) {
        assert!(!SERVERS.iter().any(|server| leads_above(*server, &path)));
    }
    match Ambiguity::of(&path) {
        None => {
            assert_eq!(lenient(&path), strict(&path));
            assert_eq!(decoded(&merged(&path)), strict(&path));
            assert_eq!(merged(&merged(&path)), merged(&path));
        }
        Some(ambiguity) => {
            assert!(!ambiguity.to_string().is_empty());
            assert!(leaves_root(&path) || ambiguity != Ambiguity::AboveRoot);
        }
    }
});
