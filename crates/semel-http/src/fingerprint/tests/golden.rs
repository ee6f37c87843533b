//! Fingerprints of the first version of the format. Records have them: if one changes, the retries
//! of requests that were made before an upgrade are refused after it.

use super::*;

fn hex(fingerprint: Fingerprint) -> String {
    let bytes = fingerprint.as_bytes();
    bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[test]
fn json_and_plain_bodies_keep_their_fingerprints() {
    let under = |method, uri, fields: Fields<'_>, body: &str| {
        hex(fingerprint_under(RoutePolicy::builder(), (method, uri), fields, body.as_bytes()))
    };
    let json = "cdc44e7c1ee179d48ae0e3ebd01469a64759c24bb4393ee1c9e7c06f9ea02312";
    assert_eq!(under("POST", "/charges", JSON, r#"{"a":1}"#), json);
    let utf8 = [("content-type", "application/json; charset=utf-8"), ("accept", "*/*")];
    assert_eq!(under("POST", "/charges", &utf8, r#"{ "a": 1 }"#), json);
    let identity = [JSON[0], ("content-encoding", "identity")];
    assert_eq!(under("POST", "/charges", &identity, r#"{"a":1}"#), json);
    assert_eq!(
        under("POST", "/charges?b=2", JSON, r#"{"a":1}"#),
        "0233745018da8b68edc2929852a1b32e94ba41b3c97c3df40acb698a6168d7d9"
    );
    assert_eq!(
        under("POST", "/charges", JSON, r#"{"a":1"#),
        "105689efed27a159e6b692d146637503679541485dbbe55018f41d12a6bfadf1"
    );
    assert_eq!(
        under("POST", "/charges", &[("content-type", "Text/Plain")], "x"),
        "e9b310ec977574c21032d203d187b45440d341e8f18b6501ef0bbd275c0cff01"
    );
    assert_eq!(
        under("POST", "/charges", &[], ""),
        "84a683cb1ce50fa4f438ed2c0b8178478cf283896fdb967cd04bb7fbe52ebfdc"
    );
    assert_eq!(
        under("DELETE", "/charges/1", &[], ""),
        "b8ca7cd9c10bbe0fed86c1c10e89abaa7659d121bacc5b60487ad568d713b966"
    );
}

#[test]
fn named_headers_come_after_the_content_type_as_they_did() {
    let names = ["content-type", "x-a", "x-b"].map(http::HeaderName::from_static);
    let policy = RoutePolicy::builder().fingerprint_headers(names.to_vec());
    let fields = [("x-a", "1"), JSON[0], ("x-a", "2")];
    assert_eq!(
        hex(fingerprint_under(policy, ("POST", "/charges"), &fields, br#"{"a":1}"#)),
        "38e5b7ef600460bb033af81a8aacee15806d83a84e5fee46f4333309451c6fcd"
    );
}
