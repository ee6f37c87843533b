//! Bodies of each kind: what a retry may change, and what makes another request.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use super::*;

fn gzip(text: &[u8], time: u32) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(time).write(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

/// The fingerprint of a body of a type and coding.
fn body(content_type: &str, coding: &str, body: &[u8]) -> Fingerprint {
    with(&[("content-type", content_type), ("content-encoding", coding)], body)
}

#[test]
fn all_json_types_are_compared_by_value() {
    for content_type in
        ["application/json", "text/json", "text/json; charset=utf-8", "application/vnd.shop+json"]
    {
        let typed = |body: &[u8]| with(&[("content-type", content_type)], body);
        assert_eq!(typed(b"{ \"a\": 1 }"), typed(b"{\"a\":1}"), "{content_type}");
        assert_ne!(typed(b"{\"a\":1,\"a\":1}"), typed(b"{\"a\":1}"), "{content_type}");
    }
}

/// The canonical form is no JSON, and its bytes sent as they are stay what they are.
#[test]
fn the_bytes_of_a_canonical_form_are_another_body() {
    let canonical = crate::json::canonical(b"{\"a\":1}", &[]).unwrap();
    assert_ne!(with(JSON, &canonical), with(JSON, b"{\"a\":1}"));
}

#[test]
fn bodies_that_may_not_be_json_are_compared_as_bytes() {
    for fields in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json; charset=utf-16")],
        &[("content-type", "application/json; charset")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
        &[("content-type", "application/json"), ("content-encoding", "br")],
        &[("content-type", "application/json"), ("content-type", "application/json")],
    ] {
        assert_ne!(with(fields, b"{ }"), with(fields, b"{}"), "{fields:?}");
        assert_eq!(with(fields, b"{ }"), with(fields, b"{ }"), "{fields:?}");
    }
}

#[test]
fn forms_are_compared_field_by_field() {
    let form = |text: &str| body("application/x-www-form-urlencoded", "", text.as_bytes());
    assert_eq!(form("a=1&b=2&a=3"), form("b=2&a=1&a=3"));
    assert_ne!(form("a=1&a=2"), form("a=2&a=1"));
    assert_ne!(form("a=1&b=2"), form("a=1&b=3"));
    // Fields cannot flow into each other.
    assert_ne!(form("a=1&b"), form("a=1b"));
    assert_ne!(form("ab=1"), form("a&b=1"));
    for other in ["application/x-www-form-urlencoded; charset=utf-16", "text/plain"] {
        assert_ne!(body(other, "", b"a=1&b=2"), body(other, "", b"b=2&a=1"));
    }
}

/// Parts between one boundary, as a request with it in its header.
fn multipart(boundary: &str, parts: &str) -> Fingerprint {
    let content_type = format!("multipart/form-data; boundary=\"{boundary}\"");
    body(&content_type, "", parts.replace("--B", &format!("--{boundary}")).as_bytes())
}

const PARTS: &str = "--B\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--B--\r\n";

#[test]
fn a_multipart_is_compared_part_by_part() {
    assert_eq!(multipart("one", PARTS), multipart("two", PARTS));
    assert_eq!(multipart("one", PARTS), multipart("two", &PARTS.replace("Content-", "content-")));
    assert_ne!(multipart("one", PARTS), multipart("one", &PARTS.replace("\n1\r", "\n2\r")));
    assert_ne!(multipart("one", PARTS), multipart("one", &PARTS.replace("name", "filename")));
    let mixed = |boundary: &str| format!("multipart/mixed; boundary={boundary}");
    let one = body(&mixed("B"), "", PARTS.as_bytes());
    assert_ne!(one, multipart("B", PARTS));
    // The boundary is part of what is compared as it came, in the header too.
    let broken = PARTS.replace("--B--", "--B");
    assert_ne!(multipart("one", &broken), multipart("two", &broken));
    let broken = broken.as_bytes();
    assert_ne!(body(&mixed("B"), "", broken), body(&mixed("C"), "", broken));
}

/// To a server that leaves the backslash where it is, the boundary is another one.
#[test]
fn a_boundary_with_a_backslash_is_compared_as_it_came() {
    let typed = |boundary: &str| {
        body(&format!("multipart/form-data; boundary=\"{boundary}\""), "", PARTS.as_bytes())
    };
    assert_ne!(typed("\\B"), typed("B"));
    let other = |boundary: &str| PARTS.replace("--B", &format!("--{boundary}"));
    let escaped = |boundary: &str| {
        let content_type = format!("multipart/form-data; boundary=\"\\{boundary}\"");
        body(&content_type, "", other(boundary).as_bytes())
    };
    assert_ne!(escaped("B"), escaped("C"));
}

#[test]
fn gzip_is_compared_by_its_decoded_content() {
    for (content_type, one, two) in [
        ("application/json", "{ \"a\": 1 }", "{\"a\":1}"),
        ("application/x-www-form-urlencoded", "a=1&b=2", "b=2&a=1"),
        ("text/plain", "text", "text"),
    ] {
        let (first, again) = (gzip(one.as_bytes(), 1), gzip(two.as_bytes(), 2));
        assert_ne!(first, again);
        let print = body(content_type, "gzip", &first);
        assert_eq!(print, body(content_type, "x-gzip, identity", &again), "{content_type}");
        assert_ne!(print, body(content_type, "gzip", &gzip(b"{\"a\":2}", 1)), "{content_type}");
        assert_ne!(print, body(content_type, "identity", one.as_bytes()), "{content_type}");
        assert_ne!(print, body(content_type, "", &first), "{content_type}");
    }
    let parts = |boundary: &str, time| {
        let parts = PARTS.replace("--B", &format!("--{boundary}"));
        let content_type = format!("multipart/form-data; boundary={boundary}");
        body(&content_type, "gzip", &gzip(parts.as_bytes(), time))
    };
    assert_eq!(parts("one", 1), parts("two", 2));
    // To a server that reads the first member only, the second is not there.
    let members = [gzip(b"te", 1), gzip(b"xt", 1)].concat();
    assert_ne!(body("text/plain", "gzip", &members), body("text/plain", "gzip", &gzip(b"text", 1)));
}

/// The same bytes decoded and as they came are two bodies.
#[test]
fn undecodable_bodies_never_equal_decoded_ones() {
    let text = b"text".as_slice();
    let decoded = body("text/plain", "gzip", &gzip(text, 1));
    assert_ne!(body("text/plain", "gzip", text), decoded);
    let trailing = [gzip(text, 1), b"x".to_vec()].concat();
    assert_ne!(body("text/plain", "gzip", &trailing), decoded);
    let again = [gzip(text, 2), b"x".to_vec()].concat();
    assert_ne!(body("text/plain", "gzip", &trailing), body("text/plain", "gzip", &again));
    for coding in ["br", "deflate", "gzip, gzip", "gzip;q=1"] {
        let two = [gzip(text, 1), gzip(text, 2)].map(|text| body("text/plain", coding, &text));
        assert_ne!(two[0], two[1], "{coding}");
    }
}

#[test]
fn different_codings_are_different_requests() {
    let codings = ["", "gzip", "br", "deflate", "br, gzip", "gzip, br", "gzip;q=1", "\"br\""];
    for (at, one) in codings.iter().enumerate() {
        for other in &codings[at + 1..] {
            let prints = [one, other].map(|coding| body("text/plain", coding, b"x"));
            assert_ne!(prints[0], prints[1], "{one} {other}");
        }
    }
    assert_eq!(body("text/plain", "BR", b"x"), body("text/plain", "br,identity", b"x"));
    assert_eq!(body("text/plain", "", b"x"), with(&[("content-type", "text/plain")], b"x"));
}

/// I10: eight times what a route reads, and never more than 8 MiB.
#[test]
fn a_bomb_is_compared_as_it_came() {
    let under = |max_request_body: u64, len: usize| {
        let fields = [("content-type", "text/plain"), ("content-encoding", "gzip")];
        let policy = || RoutePolicy::builder().max_request_body(max_request_body);
        [1, 2].map(|time| {
            let body = gzip(&vec![b'a'; len], time);
            fingerprint_under(policy(), ("POST", "/a"), &fields, &body)
        })
    };
    let is_decoded = |prints: [Fingerprint; 2]| prints[0] == prints[1];
    assert!(is_decoded(under(1000, 8000)) && !is_decoded(under(1000, 8001)));
    assert!(is_decoded(under(1 << 30, 8 << 20)) && !is_decoded(under(1 << 30, (8 << 20) + 1)));
}
