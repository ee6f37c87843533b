//! Any bytes as a body that may have a key, or as a `Cookie` that may have a session, judged by lenient
//! servers.
//!
//! The first byte says which: `c` for cookies, anything else for a body, and of which type it is.
#![no_main]

// What the modules need of the crate that they are taken from.
mod json {
    pub use semel_http::json::*;
}
mod policy {
    pub use semel_http::RoutePolicy;
}
mod source {
    pub use semel_http::{CookieName, PartSource};
}

#[path = "../../crates/semel-http/src/extract/cookies.rs"]
mod cookies;

#[path = "../../crates/semel-http/src/extract/keys.rs"]
#[allow(dead_code, reason = "keys in headers have a target of their own")]
mod keys;

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use semel_core::Key;
use semel_http::{RoutePolicy, ScopeSource};
use serde_json::{Deserializer, Value};

use source::CookieName;

const POINTERS: [&str; 4] = ["/key", "/meta/key", "/0", "/a~1b/1"];

const TYPES: [&str; 5] =
    ["", "application/json", "application/json; charset=utf-8", "text/plain", "a/b; charset=utf-7"];

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        b'c' => check_cookies(data),
        kind => check_body(TYPES[usize::from(*kind) % TYPES.len()], data),
    }
});

/// Where a lenient server finds a member, a key is found, or the body is refused.
fn check_body(content_type: &str, body: &[u8]) {
    let mut headers = HeaderMap::new();
    headers.insert("content-type", HeaderValue::from_str(content_type).expect("a value"));
    for pointer in POINTERS {
        let source = format!("json:{pointer}").parse().expect("a source");
        let policy = RoutePolicy::builder().key_from(vec![source]).build().expect("a policy");
        let found = keys::key_in_body(&headers, body, &policy);
        if let Err(problem) = &found {
            assert!(!problem.to_string().is_empty());
            continue;
        }
        let members: Vec<Value> =
            readings(body).into_iter().filter_map(|text| member(&text, pointer)).collect();
        match found.ok().flatten() {
            Some(key) => assert!(members.iter().any(|member| is_key(member, &key, &policy))),
            None => assert!(members.is_empty(), "{members:?} was not found"),
        }
    }
}

/// A body as servers decode it: with a byte order mark or without, as UTF-8 that need not be correct, or
/// as UTF-16.
fn readings(body: &[u8]) -> Vec<String> {
    let wide = |of: fn([u8; 2]) -> u16| {
        let (units, _) = body.as_chunks::<2>();
        let units: Vec<u16> = units.iter().map(|unit| of(*unit)).collect();
        String::from_utf16_lossy(&units)
    };
    let utf8 = String::from_utf8_lossy(body).into_owned();
    vec![utf8, wide(u16::from_be_bytes), wide(u16::from_le_bytes)]
}

/// What the first value of a text has there, whatever follows it. Of two members the last one counts.
fn member(text: &str, pointer: &str) -> Option<Value> {
    let text = text.trim_start_matches('\u{feff}');
    let first = Deserializer::from_str(text).into_iter::<Value>().next()?;
    first.ok()?.pointer(pointer).cloned()
}

/// Numbers have more spellings than keys: `1.0` is a key, and `1` is another one.
fn is_key(member: &Value, key: &Key, policy: &RoutePolicy) -> bool {
    match member {
        Value::String(text) => {
            Key::parse_header(text.as_bytes(), policy.key_limits).as_ref() == Ok(key)
        }
        member => member.is_number(),
    }
}

/// Two requests with one identity here have the same session to servers that take the first of two
/// cookies, and to those that take the last.
fn check_cookies(data: &[u8]) {
    let Some(split) = data.iter().position(|byte| *byte == b'\n') else { return };
    let name = cookie_name("sid");
    let [one, two] = [&data[..split], &data[split + 1..]].map(|text| {
        let mut headers = HeaderMap::new();
        for value in text.split(|byte| *byte == b'\r') {
            headers.append("cookie", HeaderValue::from_bytes(value).ok()?);
        }
        Some(headers)
    });
    let (Some(one), Some(two)) = (one, two) else { return };
    let ours = [&one, &two].map(|headers| cookies::cookies(headers, &name).collect::<Vec<_>>());
    let theirs = [&one, &two].map(|headers| sessions(headers, "sid"));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.is_empty(), theirs.is_empty(), "{ours:?} {theirs:?}");
    }
    if ours[0] == ours[1] {
        assert_eq!(theirs[0].first(), theirs[1].first());
        assert_eq!(theirs[0].last(), theirs[1].last());
    }
}

fn cookie_name(name: &str) -> CookieName {
    match format!("cookie:{name}").parse() {
        Ok(ScopeSource::Cookie(name)) => name,
        other => panic!("{other:?}"),
    }
}

/// The cookies of a name by RFC 6265, section 5.4, as text.
fn sessions(headers: &HeaderMap, name: &str) -> Vec<String> {
    let mut sessions = Vec::new();
    for field in headers.get_all("cookie") {
        // One letter for each byte.
        let field: String = field.as_bytes().iter().map(|byte| char::from(*byte)).collect();
        for pair in field.split(';') {
            let Some((found, value)) = pair.split_once('=') else { continue };
            let value = value.trim_matches([' ', '\t']);
            if found.trim_matches([' ', '\t']) == name && !value.is_empty() {
                sessions.push(value.to_owned());
            }
        }
    }
    sessions
}
