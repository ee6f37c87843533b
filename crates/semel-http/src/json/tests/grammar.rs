//! RFC 8259, no more and no less.

use super::*;

#[rustfmt::skip]
const ACCEPTED: &[&str] = &[
    "0", "-0", "-1", "10", "0.0", "1.50", "1e5", "1E5", "1e+05", "1E-05", "0e0", "-0.0e-0", "true",
    "false", "null", "\"\"", "[]", "{}", "[[],{}]", "\"\u{7f}\u{80}\u{feff}\u{ffff}\"",
    r#"{"":{"":[null]}}"#,
    r#""\u0000\"\\\/\b\f\n\r\t""#, "123456789012345678901234567890.5e999999",
];

/// What is not JSON, and the first byte that cannot stand there.
#[rustfmt::skip]
const REFUSED: &[(&str, usize)] = &[
    ("", 0), (" ", 1), ("\u{feff}1", 0), ("\u{feff}", 0), ("\u{b}1", 0), ("\u{a0}1", 0),
    // Numbers.
    ("01", 1), ("-01", 2), ("00", 1), ("-", 1), ("+1", 0), (".5", 0), ("1.", 2), ("1.e5", 2),
    ("-.5", 1), ("1e", 2), ("1e+", 3), ("1e5.0", 3), ("1.2.3", 3), ("0x10", 1), ("1_000", 1),
    ("--1", 1), ("1-", 1), ("NaN", 0), ("Infinity", 0), ("-Infinity", 1), ("1,5", 1), ("[1 2]", 3),
    // Words.
    ("tru", 0), ("True", 0), ("truee", 4), ("nul", 0), ("nullnull", 4), ("undefined", 0),
    // Strings.
    ("\"", 1), ("\"a", 2), ("'a'", 0), ("\"\\\"", 3), ("\"\n\"", 1), ("\"\0\"", 1),
    ("\"\u{1f}\"", 1), ("\"\\x\"", 2), ("\"\\\n\"", 2), ("\"\\U0041\"", 2), ("\"\\", 2),
    ("\"\\u", 3), ("\"\\u004", 6), ("\"\\u004\"", 6), ("\"\\u00g0\"", 5), ("\"\\u+041\"", 3),
    ("\"\\u 041\"", 3), ("\"\\ud800\\u\"", 9), ("\"\\u00é\"", 5), ("\"a\"b", 3),
    // Arrays and objects.
    ("[", 1), ("]", 0), ("[1", 2), ("[1,", 3), ("[1,]", 3), ("[,1]", 1), ("[1,,2]", 3), ("[1}", 2),
    ("{", 1), ("}", 0), ("{\"a\"", 4), ("{\"a\":", 5), ("{\"a\":1", 6), ("{\"a\":1,", 7),
    ("{\"a\":1,}", 7), ("{,}", 1), ("{a:1}", 1), ("{1:1}", 1), ("{\"a\" 1}", 5), ("{\"a\"::1}", 5),
    ("{\"a\",1}", 4), ("{\"a\":1 \"b\":2}", 7), ("{\"a\":1]", 6), ("{\"a\":}", 5), ("{null:1}", 1),
    // After the value.
    ("1 1", 2), ("{}{}", 2), ("[]]", 2), ("1,", 1), ("{} x", 3), ("1\0", 1), ("\"\"\"\"", 2),
    // Comments.
    ("/**/1", 0), ("1//", 1), ("[1]#", 3),
];

#[test]
fn every_kind_of_value_is_read() {
    for text in ACCEPTED {
        assert!(form(text).is_ok(), "{text}");
    }
}

#[test]
fn invalid_json_is_refused() {
    for (text, at) in REFUSED {
        assert_eq!(form(text), Err(NotCanonical::Syntax { at: *at }), "{text:?}");
    }
}

#[test]
fn invalid_utf8_is_refused() {
    let texts: [&[u8]; 8] = [
        b"\xff",
        b"\"\xff\"",
        b"\"\xc0\x80\"",
        b"\"\xed\xa0\x80\"",
        b"\"\xf4\x90\x80\x80\"",
        b"\"\xe2\x82\"",
        b"\xff\xfe1\0",
        b"{\"a\xff\":1}",
    ];
    for text in texts {
        assert_eq!(canonical(text, &[]), Err(NotCanonical::NotUtf8), "{text:?}");
    }
}

#[test]
fn half_a_surrogate_pair_is_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\udfff\ud800""#,
        r#""\ud800\ud800""#,
        r#""\ud800\u0041""#,
        r#""\ud800x\udc00""#,
        r#""\ud800\n""#,
        r#""\udbff\ue000""#,
        r#"{"\ud800":1}"#,
    ] {
        assert_eq!(form(text), Err(NotCanonical::LoneSurrogate), "{text}");
    }
    assert!(form(r#""\ud7ff\ue000""#).is_ok());
}
