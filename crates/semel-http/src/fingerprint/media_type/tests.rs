use proptest::prelude::*;

use super::super::readers::type_reading;
use super::*;

/// The one spelling of a type, if it is one.
fn spelled(text: &str) -> Option<String> {
    let media_type = MediaType::parse(text.as_bytes())?;
    Some(String::from_utf8(media_type.spelled(false).into_owned()).unwrap())
}

/// Every spelling in a row is one type, and those of two rows are two.
const TYPES: [&[&str]; 13] = [
    &[
        "application/json",
        "Application/JSON",
        "application/json;",
        "application/json ; ;",
        "application/json; charset=utf-8",
        "application/json;CHARSET=\"UTF-8\"",
        "application/json; charset=utf8",
    ],
    &["application/json; charset=utf-16", "application/json;charset=\"UTF-16\""],
    &["application/json; v=1", "application/json;charset=utf-8;v=1", "application/json;V=\"1\""],
    &[
        "application/json; v=1; w=2",
        "application/json;\tw=2 ;v=1",
        "application/json;w=\"\\2\";v=1",
    ],
    &["application/json; v=2"],
    &["text/json"],
    &["text/json; charset=utf-8", "text/json;charset=\"utf-8\""],
    &["text/plain; charset=utf-8", "text/PLAIN; Charset=UTF-8"],
    &["text/plain; a=\"b;c=\\\"d\\\"\""],
    &["text/plain; a=b; c=d"],
    &["text/plain; a=B"],
    &["text/plain; a=b", "text/plain; a=\"b\"", "text/plain; A=\"\\b\""],
    &["text/plain; a=\"\""],
];

#[test]
fn spelling_does_not_count_and_all_else_does() {
    for (row, types) in TYPES.iter().enumerate() {
        let one = spelled(types[0]).unwrap();
        for text in *types {
            assert_eq!(spelled(text).as_ref(), Some(&one), "{text}");
        }
        for other in TYPES.iter().skip(row + 1).flat_map(|types| types.iter()) {
            assert_ne!(spelled(other).as_ref(), Some(&one), "{other}");
        }
    }
}

/// So no text that is compared as it came is taken for one that was read.
#[test]
fn the_one_spelling_is_a_type_again_and_its_own_spelling() {
    for text in TYPES.iter().flat_map(|types| types.iter()) {
        let one = spelled(text).unwrap();
        assert_eq!(spelled(&one), Some(one.clone()));
    }
}

#[test]
fn malformed_content_types_have_no_media_type() {
    for text in [
        "",
        "json",
        "/",
        "a/",
        "/a",
        "a/b/c",
        "a b/c",
        "a/b c",
        "a/b,c/d",
        "a/b; c",
        "a/b; c=",
        "a/b; =d",
        "a/b; c =d",
        "a/b; c= d",
        "a/b; c=d e",
        "a/b; c=\"d",
        "a/b; c=\"d\\",
        "a/b; c=\"d\"e",
        "a/b; c=d; c=d",
        "a/b; c=d; C=e",
        "a/b c=d",
        // Readers disagree on whether a backslash counts, and what these say is how a body is read.
        "multipart/mixed; boundary=\"a\\b\"",
        "application/json; Charset=\"utf\\-8\"",
    ] {
        assert_eq!(spelled(text), None, "{text}");
    }
}

fn fields(values: &[&str]) -> HeaderMap {
    let value = |value: &&str| (header::CONTENT_TYPE, HeaderValue::from_str(value).unwrap());
    values.iter().map(value).collect()
}

#[test]
fn json_has_many_types_and_one_charset() {
    let says_json = |values: &[&str]| is_json(&fields(values));
    for json in [
        "application/json",
        "text/json",
        "text/json; charset=UTF-8",
        "application/vnd.shop+json",
        "application/problem+JSON; charset=utf8",
        "application/ld+json; profile=\"a\"",
    ] {
        assert!(says_json(&[json]), "{json}");
    }
    for other in ["text/plain", "application/json; charset=latin1", "json", "application/jsonp"] {
        assert!(!says_json(&[other]), "{other}");
    }
    assert!(!says_json(&[]) && !says_json(&["application/json", "application/json"]));
}

#[test]
fn a_boundary_is_left_out_only_of_parts_that_were_read() {
    let parse = || MediaType::parse(b"multipart/mixed; boundary=\"a b\"; type=x").unwrap();
    assert_eq!(parse().boundary(), Some(b"a b".as_slice()));
    assert_eq!(&*parse().spelled(true), b"multipart/mixed;type=\"x\"");
    assert_eq!(&*parse().spelled(false), b"multipart/mixed;boundary=\"a b\";type=\"x\"");
    assert_eq!(MediaType::parse(b"text/plain; boundary=a").unwrap().boundary(), None);
}

fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "a",
        "A",
        "b",
        ";",
        ";a=",
        ";B=b",
        "=",
        "\"",
        "\\",
        "\\\"",
        " ",
        ",",
        "\"a;b=c\"",
        "charset=",
        "utf-8",
        "UTF-8",
    ];
    let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..8);
    pieces.prop_map(|pieces| format!("a/b;{}", pieces.concat()))
}

proptest! {
    /// Types that are one here are one to another reader.
    #[test]
    fn a_spelling_is_read_as_the_text_it_stands_for(text in soup()) {
        if let Some(one) = spelled(&text) {
            prop_assert_eq!(type_reading(&one), type_reading(&text));
        }
    }
}
