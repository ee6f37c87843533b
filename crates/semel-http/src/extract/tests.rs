use http::{HeaderMap, Request};
use proptest::prelude::*;
use semel_core::{KeyFormat, Scope};

use super::bearer::Token;
use super::*;
use crate::json::Pointer;
use crate::policy::{OnMissingScope, RoutePolicy};
use crate::source::{PartSource, ScopeSource};

fn headers(fields: &[(&str, &str)]) -> HeaderMap {
    let mut request = Request::builder();
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap().into_parts().0.headers
}

fn policy(sources: &[&str]) -> RoutePolicy {
    let sources = sources.iter().map(|source| source.parse().unwrap()).collect();
    RoutePolicy::builder().key_from(sources).build().unwrap()
}

#[test]
fn both_forms_of_the_header_name_the_same_key() {
    let policy = RoutePolicy::default();
    let bare = key_in_headers(&headers(&[("idempotency-key", "k-1")]), &policy).unwrap();
    let quoted = key_in_headers(&headers(&[("Idempotency-Key", "\"k-1\"")]), &policy).unwrap();
    assert_eq!(bare, quoted);
    assert_eq!(bare.unwrap().as_str(), "k-1");
    assert_eq!(key_in_headers(&headers(&[]), &policy), Ok(None));
}

#[test]
fn bad_keys_are_refused() {
    let policy = RoutePolicy::default();
    let long = "k".repeat(129);
    for value in ["", "  ", "a b", "\"a", &long, "caf\u{e9}"] {
        let map = headers(&[("idempotency-key", value)]);
        assert!(matches!(key_in_headers(&map, &policy), Err(KeyProblem::Malformed(_))), "{value}");
    }
    let twice = headers(&[("idempotency-key", "a"), ("idempotency-key", "a")]);
    assert!(matches!(key_in_headers(&twice, &policy), Err(KeyProblem::Repeated(_))));
}

#[test]
fn key_format_uuid_wants_a_uuid() {
    let policy = RoutePolicy::builder().key_format(KeyFormat::Uuid).build().unwrap();
    let map = headers(&[("idempotency-key", "order-1")]);
    assert!(key_in_headers(&map, &policy).is_err());
    let map = headers(&[("idempotency-key", "9b2e6c1c-3e0b-4f0e-9a55-0c5b8c3f1a11")]);
    assert!(key_in_headers(&map, &policy).unwrap().is_some());
}

#[test]
fn the_first_source_that_has_a_key_wins() {
    let policy = policy(&["header:idempotency-key", "header:paypal-request-id", "json:/key"]);
    let both = headers(&[("paypal-request-id", "p"), ("idempotency-key", "i")]);
    assert_eq!(key_in_headers(&both, &policy).unwrap().unwrap().as_str(), "i");
    let second = headers(&[("paypal-request-id", "p")]);
    assert_eq!(key_in_headers(&second, &policy).unwrap().unwrap().as_str(), "p");
    assert!(looks_into_body(&policy));
}

#[test]
fn a_key_in_the_body_is_found() {
    let policy = policy(&["json:/key"]);
    let found = |body: &str| key_in_body(&headers(&[]), body.as_bytes(), &policy);
    assert_eq!(found(r#"{"key":"k-1"}"#).unwrap().unwrap().as_str(), "k-1");
    assert_eq!(found(r#"{"key":17}"#).unwrap().unwrap().as_str(), "17");
    assert_eq!(found(r#"{"other":1}"#), Ok(None));
    assert_eq!(found("not json"), Ok(None));
    assert_eq!(found(r#"{"key":null}"#), Err(KeyProblem::NotText));
    assert!(found(r#"{"key":""}"#).is_err());
    assert_eq!(found(""), Ok(None));
}

/// The upstream may find a key where this reader does not: such a body is no body without one.
#[test]
fn a_body_that_may_have_a_key_and_cannot_be_read_is_refused() {
    let policy = policy(&["json:/key"]);
    let found = |fields: &[(&str, &str)], body: &[u8]| key_in_body(&headers(fields), body, &policy);
    let json = &[("content-type", "application/json")][..];
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let long = format!(r#"{{"key":"a","deep":{deep}}}"#);
    for body in [
        r#"{"key":"a","key":"b"}"#,
        r#"{"key":"a","x":1,"x":1}"#,
        "\u{feff}{\"key\":\"a\"}",
        "  {\"key\":\"a\",}",
        "[{\"key\":\"a\"",
        &long,
    ] {
        for fields in [&[][..], json, &[("content-type", "text/plain")]] {
            let refused = found(fields, body.as_bytes());
            assert!(matches!(refused, Err(KeyProblem::Unreadable(_))), "{body}: {refused:?}");
        }
    }
    let utf16: Vec<u8> = "{\"key\":1}".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert!(matches!(found(&[], &utf16), Err(KeyProblem::Unreadable(_))));
    for coding in ["gzip", "identity, br", "GZIP"] {
        let fields = [("content-encoding", coding), ("content-type", "application/json")];
        assert!(matches!(found(&fields, b"\x1f\x8b"), Err(KeyProblem::Encoded(_))), "{coding}");
    }
    let fields = [("content-encoding", "Identity")];
    assert_eq!(found(&fields, br#"{"key":"a"}"#).unwrap().unwrap().as_str(), "a");
    for says in ["application/json", "text/json; charset=utf-16", "application/vnd.api+json"] {
        assert!(found(&[("content-type", says)], b"hello").is_err(), "{says}");
    }
}

/// What a lenient server finds in a body: the first value in it, the last of two members, with or
/// without a byte order mark, in UTF-8 that need not be correct or in UTF-16.
fn lenient_finds(body: &[u8], pointer: &str) -> bool {
    let wide = |of: fn([u8; 2]) -> u16| {
        let (units, _) = body.as_chunks::<2>();
        String::from_utf16_lossy(&units.iter().map(|unit| of(*unit)).collect::<Vec<_>>())
    };
    let texts = [
        String::from_utf8_lossy(body).into_owned(),
        wide(u16::from_be_bytes),
        wide(u16::from_le_bytes),
    ];
    texts.iter().any(|text| {
        let text = text.trim_start_matches('\u{feff}');
        let first =
            serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>().next();
        first.and_then(Result::ok).is_some_and(|value| value.pointer(pointer).is_some())
    })
}

fn pieces_of_json() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        " ",
        "\"key\"",
        "\"k\\u0065y\"",
        "\"a\"",
        "1",
        "null",
        "\u{feff}",
        "{\"key\":\"a\"}",
        "{\"key\":1",
        ",\"key\":\"b\"}",
        "\"x\":[{}],",
        "\u{e9}",
    ];
    let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..8);
    (pieces, 0..4).prop_map(|(pieces, coding)| {
        let text = pieces.concat();
        match coding {
            0 => text.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            1 => text.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            2 => [text.as_bytes(), b"\xff"].concat(),
            _ => text.into_bytes(),
        }
    })
}

proptest! {
    /// A key that a lenient server finds is found here, or the body is refused.
    #[test]
    fn no_body_passes_as_one_without_a_key_in_which_a_server_finds_one(
        body in pieces_of_json(),
        says in prop::sample::select(vec!["", "application/json", "text/plain", "a/b; charset=utf-8"]),
    ) {
        for pointer in ["/key", "/0/key", "/x/0"] {
            let policy = RoutePolicy::builder()
                .key_from(vec![PartSource::Json(Pointer::parse(pointer).unwrap())])
                .build()
                .unwrap();
            let found = key_in_body(&headers(&[("content-type", says)]), &body, &policy);
            let is_ignored = found == Ok(None) && lenient_finds(&body, pointer);
            prop_assert!(!is_ignored, "{} in {:?}", pointer, String::from_utf8_lossy(&body));
        }
    }
}

/// Some servers read JSON by its bytes, whatever its type: UTF-16 and UTF-32 too, and white space first.
#[test]
fn wide_json_is_detected_by_its_first_characters() {
    let policy = policy(&["json:/key"]);
    let found = |body: &[u8]| key_in_body(&headers(&[]), body, &policy);
    for space in ["", " ", "\r\n\t"] {
        for mark in ["", "\u{feff}"] {
            let text = format!("{mark}{space}{{\"key\":1}}");
            let wide =
                |bytes: fn(u32) -> Vec<u8>| text.chars().map(u32::from).flat_map(bytes).collect();
            let all: [Vec<u8>; 4] = [
                wide(|letter| u16::try_from(letter).unwrap().to_be_bytes().into()),
                wide(|letter| u16::try_from(letter).unwrap().to_le_bytes().into()),
                wide(|letter| letter.to_be_bytes().into()),
                wide(|letter| letter.to_le_bytes().into()),
            ];
            for body in all {
                assert!(matches!(found(&body), Err(KeyProblem::Unreadable(_))), "{body:?}");
            }
        }
    }
    assert_eq!(found(b"\0\0\x01\x02"), Ok(None));
}

/// Express reads JSON in UTF-7, in which ASCII is not what it looks like.
#[test]
fn json_in_a_charset_that_hides_a_key_is_refused() {
    let policy = policy(&["json:/key"]);
    let found = |says: &[&str], body: &[u8]| {
        let fields: Vec<_> = says.iter().map(|says| ("content-type", *says)).collect();
        key_in_body(&headers(&fields), body, &policy)
    };
    for says in [
        &["application/json; charset=utf-7"][..],
        &["application/json; charset = UTF-7"],
        &["application/json;x=1;charset=\"utf-7\""],
        &["text/plain", "application/json; charset=utf-7"],
        &["text/plain; charset=utf-7"],
    ] {
        assert_eq!(found(says, br#"{"+AGs-ey":"a"}"#), Err(KeyProblem::OtherCharset), "{says:?}");
    }
    for charset in ["utf-8", "UTF-8", "\"utf-8\"", "ISO-8859-1", " utf8 "] {
        let key = found(&[&format!("application/json; charset={charset}")], br#"{"key":"a"}"#);
        assert_eq!(key.unwrap().unwrap().as_str(), "a", "{charset}");
    }
    assert_eq!(found(&["text/plain; charset=koi8-r"], b"hello"), Ok(None));
}

/// The same header field to some servers, and no key here.
#[test]
fn a_key_with_underscores_in_its_name_is_not_ignored() {
    let both = policy(&["header:idempotency-key", "header:x_key", "header:x-key"]);
    let found = |fields: &[(&str, &str)]| key_in_headers(&headers(fields), &both);
    for name in ["idempotency_key", "Idempotency_Key"] {
        let problem = found(&[(name, "a")]).unwrap_err();
        assert!(matches!(problem, KeyProblem::Misspelled { .. }), "{problem}");
        assert!(problem.to_string().ends_with("send idempotency-key"), "{problem}");
    }
    // One that was meant is there, or the name is meant so.
    for name in ["idempotency-key", "x_key"] {
        let fields = [("idempotency_key", "b"), (name, "a")];
        assert_eq!(found(&fields).unwrap().unwrap().as_str(), "a", "{name}");
    }
    assert_eq!(found(&[("x_other", "a")]), Ok(None));
}

fn scope(sources: &[&str], fields: &[(&str, &str)], what: &str) -> Scope {
    try_scope(sources, OnMissingScope::Anonymous, fields, what).unwrap()
}

fn try_scope(
    sources: &[&str],
    on_missing: OnMissingScope,
    fields: &[(&str, &str)],
    what: &str,
) -> Result<Scope, ScopeMissing> {
    let sources: Vec<ScopeSource> = sources.iter().map(|source| source.parse().unwrap()).collect();
    let policy =
        RoutePolicy::builder().scope(sources).on_missing_scope(on_missing).build().unwrap();
    let mut request = Request::builder().method("POST");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let request = request.body(()).unwrap().into_parts().0;
    scope_of(&request, what, &policy, &Token::Unverified)
}

/// Trap 10: the same key of another client, or for another route, is another record (I7).
#[test]
fn identity_and_route_make_the_scope() {
    let by = |value| scope(&["header:authorization"], &[("authorization", value)], "/a");
    assert_eq!(by("Bearer ann"), by("Bearer ann"));
    assert_ne!(by("Bearer ann"), by("Bearer bob"));
    let ann = &[("authorization", "Bearer ann")][..];
    assert_ne!(by("Bearer ann"), scope(&["header:authorization"], ann, "/b"));
    let nobody = scope(&["header:authorization"], &[], "/a");
    assert_ne!(by("Bearer ann"), nobody);
    assert_eq!(nobody, scope(&["header:authorization"], &[("authorization", "")], "/a"));
}

#[test]
fn all_values_of_an_identity_count() {
    let one = scope(&["header:x-who"], &[("x-who", "a")], "/a");
    let two = scope(&["header:x-who"], &[("x-who", "a"), ("x-who", "b")], "/a");
    let joined = scope(&["header:x-who"], &[("x-who", "ab")], "/a");
    assert!(one != two && two != joined && one != joined);
}

#[test]
fn parts_of_an_identity_do_not_stand_in_for_each_other() {
    let sources = &["header:x-a", "header:x-b"];
    let a = scope(sources, &[("x-a", "1")], "/a");
    let b = scope(sources, &[("x-b", "1")], "/a");
    assert_ne!(a, b);
}

#[test]
fn an_identity_can_be_demanded() {
    let missing = try_scope(&["header:authorization"], OnMissingScope::Reject, &[], "/a");
    assert!(missing.unwrap_err().to_string().contains("header:authorization"));
    let half = try_scope(
        &["header:authorization", "header:x-tenant"],
        OnMissingScope::Reject,
        &[("authorization", "Bearer ann")],
        "/a",
    );
    assert!(half.unwrap_err().to_string().contains("x-tenant"));
}

const CREDENTIALS: [&str; 26] = [
    "cookie",
    "apikey",
    "api_key",
    "x_api_key",
    "x-access-token",
    "x-forwarded-user",
    "x-goog-iap-jwt-assertion",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "proxy-authorization",
    "client-cert",
    "x-client-cert",
    "x-forwarded-client-cert",
    "ssl-client-cert",
    "x-ssl-client-cert",
    "x-amzn-mtls-clientcert",
    "x-arr-clientcert",
    "x-authorization",
    "x-auth-key",
    "x-session-id",
    "x-id-token",
    "x-shopify-access-token",
    "x-vault-token",
    "x-functions-key",
    "x_consumer_id",
];

/// Trap 10: clients that identify themselves otherwise are not one anonymous client.
#[test]
fn auto_refuses_credentials_that_it_does_not_know() {
    for name in CREDENTIALS {
        for on_missing in [OnMissingScope::Anonymous, OnMissingScope::Reject] {
            let refused = try_scope(&["auto"], on_missing, &[(name, "a=1")], "/a").unwrap_err();
            let (seen, text) = (name.to_lowercase(), refused.to_string());
            assert!(text.to_lowercase().contains(&format!("the header {seen},")), "{text}");
            let line = match name {
                "cookie" => r#"scope = ["auto", "cookie:NAME"]"#.to_owned(),
                name => format!(r#"scope = ["auto", "header:{name}"]"#),
            };
            assert!(text.contains(&line), "{text}");
        }
        // The line that the answer names cures it.
        let source =
            if name == "cookie" { "cookie:a".to_owned() } else { format!("header:{name}") };
        for on_missing in [OnMissingScope::Anonymous, OnMissingScope::Reject] {
            let by =
                |value| try_scope(&["auto", &source], on_missing, &[(name, value)], "/a").unwrap();
            assert_ne!(by("a=1"), by("a=2"), "{name}");
        }
        let with_token = [(name, "a=1"), ("authorization", "Bearer ann")];
        scope(&["auto"], &with_token, "/a");
        scope(&["global"], &[(name, "a=1")], "/a");
        scope(&["header:authorization"], &[(name, "a=1")], "/a");
        scope(&["auto"], &[(name, "")], "/a");
    }
}

/// The line of configuration that an answer names, for browsers and programs of one API.
#[test]
fn beside_auto_one_credential_is_enough() {
    let sources = &["auto", "cookie:sid", "header:x-api-key"];
    let try_by = |fields| try_scope(sources, OnMissingScope::Reject, fields, "/a");
    let all = [
        try_by(&[("authorization", "Bearer ann")]).unwrap(),
        try_by(&[("cookie", "sid=ann")]).unwrap(),
        try_by(&[("x-api-key", "ann")]).unwrap(),
        try_by(&[("x-api-key", "ann"), ("authorization", "Bearer ann")]).unwrap(),
    ];
    for (at, scope) in all.iter().enumerate() {
        assert!(!all[at + 1..].contains(scope), "{at}");
    }
    for none in [&[][..], &[("cookie", "theme=dark")], &[("cookie", "sid="), ("x-api-key", "")]] {
        assert!(matches!(try_by(none), Err(ScopeMissing::Absent(_))), "{none:?}");
    }
    // What is no credential is demanded all the same, and so is each without `auto`.
    let ann = &[("authorization", "Bearer ann")][..];
    for sources in [&["auto", "header:x-tenant"], &["header:authorization", "cookie:sid"]] {
        assert!(try_scope(sources, OnMissingScope::Reject, ann, "/a").is_err(), "{sources:?}");
    }
}

/// Records that were made by the default of earlier versions are found.
#[test]
fn auto_is_the_authorization_header_to_the_record() {
    for fields in [&[("authorization", "Bearer ann")][..], &[], &[("authorization", "")]] {
        let auto = scope(&["auto"], fields, "/a");
        assert_eq!(auto, scope(&["header:authorization"], fields, "/a"));
    }
    let missing = try_scope(&["auto"], OnMissingScope::Reject, &[], "/a").unwrap_err();
    assert!(missing.to_string().contains("Authorization header"), "{missing}");
}

#[test]
fn a_cookie_is_an_identity() {
    let by = |values: &[&str]| {
        let fields: Vec<_> = values.iter().map(|value| ("cookie", *value)).collect();
        scope(&["cookie:sid"], &fields, "/a")
    };
    let ann = by(&["sid=ann"]);
    for same in [&["theme=dark; sid=ann"][..], &["theme=dark", "sid=ann; x"], &[" sid = ann ;"]] {
        assert_eq!(by(same), ann, "{same:?}");
    }
    for other in [&["sid=bob"][..], &["SID=ann"], &["sid=ann; sid=bob"], &["xsid=ann"], &[]] {
        assert_ne!(by(other), ann, "{other:?}");
    }
    assert_eq!(by(&["sid="]), by(&["theme=dark"]));
    assert!(
        try_scope(&["cookie:sid"], OnMissingScope::Reject, &[("cookie", "a=1")], "/a").is_err()
    );
}

#[test]
fn a_claim_of_a_token_is_an_identity() {
    let token = |payload: &str| format!("Bearer e30.{payload}.c2ln");
    let by = |payload: &str| scope(&["jwt:sub"], &[("authorization", &token(payload))], "/a");
    // {"sub":"ann"}, {"sub":"ann","x":1}, {"sub":"bob"}
    let (ann, ann_too, bob) =
        ("eyJzdWIiOiJhbm4ifQ", "eyJzdWIiOiJhbm4iLCJ4IjoxfQ", "eyJzdWIiOiJib2IifQ");
    assert_eq!(by(ann), by(ann_too));
    assert_ne!(by(ann), by(bob));
    for bad in ["", "Basic abc", "Bearer abc", "Bearer a.!.c"] {
        let result =
            try_scope(&["jwt:sub"], OnMissingScope::Reject, &[("authorization", bad)], "/a");
        assert!(result.is_err(), "{bad}");
    }
}

/// All clients whose credential has no such claim would be one.
#[test]
fn a_credential_without_a_readable_claim_is_never_anonymous() {
    let by = |values: &[&str]| {
        let fields: Vec<_> = values.iter().map(|value| ("authorization", *value)).collect();
        try_scope(&["jwt:sub"], OnMissingScope::Anonymous, &fields, "/a")
    };
    // {}, {"sub":""}, {"sub":true}
    let [without, empty, other] = ["e30", "eyJzdWIiOiIifQ", "eyJzdWIiOnRydWV9"]
        .map(|payload| format!("Bearer e30.{payload}.c2ln"));
    let ann = "Bearer e30.eyJzdWIiOiJhbm4ifQ.c2ln";
    for values in [
        &["Basic YW5uOnNlY3JldA"][..],
        &["Bearer opaque"],
        &["Bearer a.!.c"],
        &["Bearer"],
        &[&without],
        &[&empty],
        &[&other],
        &[ann, ann],
        &["", ann],
    ] {
        let refused = by(values).unwrap_err();
        assert!(matches!(refused, ScopeMissing::Token(_)), "{values:?} {refused}");
    }
    assert_eq!(by(&[]).unwrap(), by(&[""]).unwrap());
    assert_ne!(by(&[]).unwrap(), by(&[ann]).unwrap());
}

#[test]
fn the_clients_address_is_an_identity() {
    let by = |ip: Option<&str>| {
        let policy = RoutePolicy::builder().scope(vec![ScopeSource::ClientIp]).build().unwrap();
        let mut request = Request::new(());
        if let Some(ip) = ip {
            request.extensions_mut().insert(ClientIp(ip.parse().unwrap()));
        }
        scope_of(&request.into_parts().0, "/a", &policy, &Token::Unverified).unwrap()
    };
    assert_eq!(by(Some("192.0.2.1")), by(Some("::ffff:192.0.2.1")));
    assert_ne!(by(Some("192.0.2.1")), by(Some("192.0.2.2")));
    assert_ne!(by(Some("192.0.2.1")), by(None));
}
