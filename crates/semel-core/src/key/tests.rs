use proptest::prelude::*;

use super::*;

const UUID: &str = "9b2e6c1c-3e0b-4f0e-9a55-0c5b8c3f1a11";

fn parse(text: &str) -> Result<Key, KeyError> {
    Key::parse(text)
}

#[test]
fn both_header_forms_name_the_same_key() {
    assert_eq!(parse("abc").unwrap(), parse(r#""abc""#).unwrap());
    assert_eq!(parse("  abc\t").unwrap(), parse(r#" "abc" "#).unwrap());
    assert_eq!(parse(r#""a\"b\\c""#).unwrap().as_str(), r#"a"b\c"#);
}

#[test]
fn only_keys_shaped_like_a_uuid_ignore_case() {
    assert_eq!(parse(&UUID.to_uppercase()).unwrap().as_str(), UUID);
    assert_ne!(parse("Order-1").unwrap(), parse("order-1").unwrap());
    // One digit short, a stray letter, a moved dash: none is a UUID.
    for near in
        [&UUID[1..], "9b2e6c1c-3e0b-4f0e-9a55-0c5b8c3f1a1G", "9b2e6c1c3-e0b-4f0e-9a55-0c5b8c3f1a11"]
    {
        assert_ne!(parse(&near.to_uppercase()).unwrap().as_str(), near.to_lowercase());
    }
}

#[test]
fn length_is_counted_after_unquoting() {
    let longest = "x".repeat(128);
    assert!(parse(&longest).is_ok());
    assert!(parse(&format!("\"{longest}\"")).is_ok());
    assert_eq!(parse(&format!("{longest}x")), Err(KeyError::TooLong { len: 129, max_len: 128 }));
    let wide = KeyLimits { max_len: 255, ..KeyLimits::default() };
    assert!(Key::parse_header("x".repeat(255).as_bytes(), wide).is_ok());
}

#[test]
fn each_fault_has_its_own_error() {
    let empty = Err(KeyError::Empty { max_len: 128 });
    for text in ["", "   ", r#""""#] {
        assert_eq!(parse(text), empty, "{text:?}");
    }
    for text in [r#"""#, r#""abc"#, r#""abc"x"#, r#""abc";p=1"#, r#""a\x""#, r#""abc\"#, r#""a"b""#]
    {
        assert_eq!(parse(text), Err(KeyError::BadQuotes), "{text:?}");
    }
    assert_eq!(parse("a b"), Err(KeyError::BadCharacter { at: 1 }));
    assert_eq!(parse("a, b"), Err(KeyError::BadCharacter { at: 2 }));
    assert_eq!(parse("käse"), Err(KeyError::BadCharacter { at: 1 }));
    assert_eq!(parse("a\u{7f}"), Err(KeyError::BadCharacter { at: 1 }));
    assert_eq!(
        Key::parse_header(b"a\0b", KeyLimits::default()),
        Err(KeyError::BadCharacter { at: 1 })
    );
}

#[test]
fn a_route_may_demand_a_uuid() {
    let uuid = KeyLimits { format: KeyFormat::Uuid, ..KeyLimits::default() };
    assert!(Key::parse_header(UUID.as_bytes(), uuid).is_ok());
    assert_eq!(Key::parse_header(b"order-1", uuid), Err(KeyError::NotUuid));
}

#[test]
fn random_keys_are_version_4_uuids() {
    let key = Key::random([0xff; 16]);
    assert_eq!(key.as_str(), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    assert_eq!(parse(key.as_str()).unwrap(), key);
}

#[test]
fn derived_keys_depend_on_every_part() {
    let base = Key::derived("ann", "charge", b"100", None);
    assert_eq!(base, Key::derived("ann", "charge", b"100", None));
    assert_ne!(base, Key::derived("bob", "charge", b"100", None));
    assert_ne!(base, Key::derived("ann", "refund", b"100", None));
    assert_ne!(base, Key::derived("ann", "charge", b"101", None));
    assert_ne!(base, Key::derived("annc", "harge", b"100", None));
    assert!(parse(base.as_str()).is_ok());
}

#[test]
fn a_window_separates_the_same_request_at_other_times() {
    let key = |millis| {
        let window =
            TimeWindow { at: Timestamp::from_millis(millis), width: Duration::from_mins(1) };
        Key::derived("ann", "charge", b"100", Some(window))
    };
    assert_eq!(key(0), key(59_999));
    assert_ne!(key(59_999), key(60_000));
    assert_ne!(key(0), Key::derived("ann", "charge", b"100", None));
}

#[test]
fn composite_keys_cannot_be_ambiguous() {
    let key = Key::composite(["order", "12345", "charge"]).unwrap();
    assert_eq!(key.as_str(), "order:12345:charge");
    assert_eq!(Key::composite(["a:b", "c"]), Err(KeyError::BadPart { index: 0 }));
    assert_eq!(Key::composite(["a", ""]), Err(KeyError::BadPart { index: 1 }));
    assert_eq!(Key::composite([]), Err(KeyError::Empty { max_len: 128 }));
    assert_eq!(Key::composite(["a", "b c"]), Err(KeyError::BadCharacter { at: 3 }));
}

/// Trap 24: a key that reaches a log line by `{:?}` must not show itself.
#[test]
fn debug_hides_the_key() {
    assert_eq!(format!("{:?}", parse("secret-token").unwrap()), "Key(12 characters)");
    let error = parse("secret token").unwrap_err();
    assert!(!format!("{error} {error:?}").contains("secret"));
}

proptest! {
    #[test]
    fn parsing_never_panics_and_is_idempotent(bytes in proptest::collection::vec(any::<u8>(), 0..160)) {
        if let Ok(key) = Key::parse_header(&bytes, KeyLimits::default()) {
            prop_assert!((1..=128).contains(&key.as_str().len()));
            prop_assert!(key.as_str().bytes().all(|b| b.is_ascii_graphic()));
            // Normal form is a fixed point, in the quoted form for every key ...
            let escaped = key.as_str().replace('\\', r"\\").replace('"', "\\\"");
            prop_assert_eq!(&parse(&format!("\"{escaped}\"")).unwrap(), &key);
            // ... and in the bare form for every key that does not look quoted.
            if !key.as_str().starts_with('"') {
                prop_assert_eq!(parse(key.as_str()).unwrap(), key);
            }
        }
    }
}

#[test]
fn a_key_names_itself_in_a_header() {
    for text in ["order-1", r#""\"a\\b""#, r#""\"""#, r#"a"b\c"#] {
        let key = Key::parse(text).unwrap();
        assert_eq!(Key::parse(&key.to_header()).unwrap(), key, "{text}");
    }
    assert_eq!(Key::parse("order-1").unwrap().to_header(), "order-1");
}
