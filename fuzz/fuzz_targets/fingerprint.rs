//! Any bytes as the body of a request, judged by how naive servers read it.
//!
//! The first byte says of which kind it is: `f` a form, `m` a body in parts, `t` two types with a
//! line end between them, `j` JSON, anything else just bytes.
#![no_main]

#[path = "canonical/tree.rs"]
#[allow(dead_code, reason = "the target `canonical` uses the rest")]
mod tree;

// What the modules need of the crate that they are taken from.
mod json {
    pub use semel_http::json::*;
}

#[path = "../../crates/semel-http/src/fingerprint/coding.rs"]
mod coding;

#[path = "../../crates/semel-http/src/fingerprint/compared.rs"]
mod compared;

#[path = "../../crates/semel-http/src/fingerprint/fields.rs"]
mod fields;

#[path = "../../crates/semel-http/src/fingerprint/form.rs"]
mod form;

#[path = "../../crates/semel-http/src/fingerprint/media_type.rs"]
#[allow(dead_code, reason = "keys are looked for by type too")]
mod media_type;

#[path = "../../crates/semel-http/src/fingerprint/multipart.rs"]
mod multipart;

#[path = "../../crates/semel-http/src/fingerprint/part.rs"]
mod part;

#[path = "../../crates/semel-http/src/fingerprint/readers.rs"]
mod readers;

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::fuzz_target;
use semel_core::Fingerprint;

use compared::Rules;
use readers::{form_readings, multipart_readings, type_reading};
use tree::{Spelling, Tree};

const FORM: &str = "application/x-www-form-urlencoded";

fuzz_target!(|data: &[u8]| {
    let Some((kind, data)) = data.split_first() else { return };
    match kind {
        b'f' => check_form(data),
        b'm' => check_parts(data),
        b't' => check_types(data),
        b'j' => check_json(data),
        _ => check_kinds(data),
    }
});

/// Fields that start elsewhere are the same form at most if all servers read the same.
fn check_form(form: &[u8]) {
    let fields: Vec<&[u8]> = form.split(|byte| *byte == b'&').collect();
    let original = print(FORM, "", form);
    for shift in 1..fields.len().min(4) {
        let other = [&fields[shift..], &fields[..shift]].concat().join(b"&".as_slice());
        if print(FORM, "", &other) == original {
            assert_eq!(form_readings(&other), form_readings(form));
        } else {
            assert!(!are_plain(&fields));
        }
    }
    assert_ne!(print(FORM, "", &[form, b"x"].concat()), original);
    assert_ne!(print(FORM, "", &[form, b"&x"].concat()), original);
    assert_ne!(print("text/plain", "", form), original);
}

/// Fields whose order no server goes by: names of their own, in small letters.
fn are_plain(fields: &[&[u8]]) -> bool {
    let name = |field: &&[u8]| field.split(|byte| *byte == b'=').next().map(<[u8]>::to_vec);
    let mut names: Vec<_> = fields.iter().filter_map(name).collect();
    names.sort();
    names.dedup();
    let is_plain = |name: &Vec<u8>| !name.is_empty() && name.iter().all(u8::is_ascii_lowercase);
    names.len() == fields.len()
        && fields.len() <= 1000
        && names.iter().all(is_plain)
        && !fields.concat().contains(&b';')
}

/// Parts with a boundary of their own, and the same with another.
fn check_parts(body: &[u8]) {
    let other = replaced(body, b"--b", b"--c");
    if print(&multipart("b"), "", body) == print(&multipart("c"), "", &other) {
        assert_eq!(multipart_readings(body, b"b"), multipart_readings(&other, b"c"));
    }
    let contents: Vec<&[u8]> = body.split(|byte| *byte == 0xff).take(8).collect();
    let printed = |boundary: &str, contents: &[&[u8]]| {
        print(&multipart(boundary), "", &parts(boundary, contents))
    };
    let original = printed("one", &contents);
    let is_apart = |text: &&[u8]| !contains(text, b"--one") && !contains(text, b"--two");
    if contents.iter().all(is_apart) {
        assert_eq!(printed("two", &contents), original);
    }
    assert_ne!(printed("one", &contents[1..]), original);
    let changed = [contents[0], b"x"].concat();
    assert_ne!(printed("one", &[&[changed.as_slice()], &contents[1..]].concat()), original);
}

fn parts(boundary: &str, contents: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for content in contents {
        body.extend_from_slice(format!("--{boundary}\r\nA: b\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    [&body, format!("--{boundary}--\r\n").as_bytes()].concat()
}

fn multipart(boundary: &str) -> String {
    format!("multipart/mixed; boundary={boundary}")
}

/// Two types are one at most if they say the same, and one that says nothing of its own is itself
/// with another case and more blanks.
fn check_types(texts: &[u8]) {
    let Some((one, two)) = std::str::from_utf8(texts).ok().and_then(|texts| texts.split_once('\n'))
    else {
        return;
    };
    if [one, two].iter().any(|text| HeaderValue::from_str(text).is_err()) {
        return;
    }
    if print(one, "", b"{}") == print(two, "", b"{}") {
        let without_charset = |text| {
            let (essence, mut parameters) = type_reading(text);
            let is_json = essence == "application/json" || essence.ends_with("+json");
            parameters.retain(|name, value| {
                !(is_json && name == "charset" && (value == "utf-8" || value == "utf8"))
            });
            (essence, parameters)
        };
        assert_eq!(without_charset(one), without_charset(two));
    }
    let essence = one.split(';').next().unwrap_or(one).trim();
    let is_token =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase());
    if essence.split_once('/').is_some_and(|(one, two)| is_token(one) && is_token(two)) {
        let spelled = format!("{};A=\"b\" ; c=d", essence.to_uppercase());
        let other = format!("{essence} ;C=\"\\d\";a=b;");
        assert_eq!(print(&spelled, "", b"{}"), print(&other, "", b"{}"));
    }
}

/// JSON in two spellings, plain and in gzip.
fn check_json(text: &[u8]) {
    let Some(tree) = Tree::read(text).filter(|_| json::canonical(text, &[]).is_ok()) else {
        return;
    };
    let spellings = [Spelling::Plain, Spelling::Backwards].map(|spelling| tree.print(spelling));
    let original = print("text/json", "gzip", &gzip(text, 0));
    for (time, spelling) in (1..).zip(&spellings) {
        assert_eq!(print("text/json", "gzip", &gzip(spelling.as_bytes(), time)), original);
        assert_eq!(print("a/b+json", "", spelling.as_bytes()), print("a/b+json", "", text));
    }
}

/// No two kinds are one, and gzip is what it holds.
fn check_kinds(body: &[u8]) {
    let types = ["", "text/plain", "application/json", "text/json", FORM, &multipart("b")];
    let mut prints = Vec::new();
    let (twice, more) = ([0, 1].map(|time| gzip(body, time)), gzip(&[body, b"x"].concat(), 0));
    for content_type in types {
        let packed = twice.each_ref().map(|body| print(content_type, "gzip", body));
        assert_eq!(packed[0], packed[1]);
        assert_ne!(print(content_type, "x-gzip", &more), packed[0]);
        prints.push(packed[0]);
        for coding in ["", "br", "gzip", "gzip, gzip", "gzip;"] {
            prints.push(print(content_type, coding, body));
        }
        assert_eq!(print(content_type, "identity", body), print(content_type, "", body));
    }
    let count = prints.len();
    prints.sort_by_key(|print| *print.as_bytes());
    prints.dedup();
    assert_eq!(prints.len(), count);
}

fn print(content_type: &str, coding: &str, body: &[u8]) -> Fingerprint {
    let mut headers = HeaderMap::new();
    for (name, value) in [("content-type", content_type), ("content-encoding", coding)] {
        if !value.is_empty() {
            headers.insert(name, HeaderValue::from_str(value).expect("a value"));
        }
    }
    let rules = Rules { more_headers: &[], ignore: &[], decoded_max: 1 << 16 };
    compared::fingerprint(Vec::new(), &headers, body, &rules)
}

fn gzip(text: &[u8], time: u32) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(time).write(Vec::new(), Compression::new(time));
    encoder.write_all(text).expect("memory");
    encoder.finish().expect("memory")
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn replaced(text: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut replaced = Vec::new();
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        match rest.strip_prefix(from) {
            Some(after) => {
                replaced.extend_from_slice(to);
                rest = after;
            }
            None => {
                replaced.push(*byte);
                rest = after;
            }
        }
    }
    replaced
}
