//! Rules by hand-written texts here and in `grammar`, `look_alikes`, `ignoring`, `finding`;
//! `properties` holds the module to a model, the trees of `tree`.

mod finding;
mod form;
mod grammar;
mod ignoring;
mod look_alikes;
mod properties;
mod tree;

use super::{NotCanonical, Pointer, Scalar, canonical, find};

fn form(text: &str) -> Result<Vec<u8>, NotCanonical> {
    canonical(text.as_bytes(), &[])
}

fn form_without(text: &str, ignored: &[&str]) -> Vec<u8> {
    let ignored: Vec<Pointer> = ignored.iter().map(|text| Pointer::parse(text).unwrap()).collect();
    canonical(text.as_bytes(), &ignored).unwrap()
}

#[track_caller]
fn assert_same(texts: &[&str]) {
    let first = form(texts[0]).unwrap();
    for text in texts {
        assert_eq!(form(text).as_ref(), Ok(&first), "{text} and {}", texts[0]);
    }
}

#[test]
fn white_space_does_not_matter() {
    assert_same(&["[1,{\"a\":2}]", " \t\n\r[ 1\n,\t{ \"a\"\r:  2 } ] \n"]);
    assert_same(&["1", "\n1 "]);
    assert_same(&["{}", "{ }"]);
    assert_same(&["[]", "[\r\n]"]);
}

#[test]
fn the_order_of_members_does_not_matter() {
    assert_same(&[
        r#"{"a":1,"b":2,"c":3}"#,
        r#"{"c":3,"b":2,"a":1}"#,
        r#"{"b":2,"c":3,"a":1}"#,
        r#"{"b":2,"a":1,"c":3}"#,
    ]);
    assert_same(&[
        r#"{"x":[{"b":{"d":1,"c":2},"a":3}],"w":{"z":{},"y":[]}}"#,
        r#"{"w":{"y":[],"z":{}},"x":[{"a":3,"b":{"c":2,"d":1}}]}"#,
        r#"{"w":{"z":{},"y":[]},"x":[{"b":{"c":2,"d":1},"a":3}]}"#,
    ]);
}

#[test]
fn the_spelling_of_strings_does_not_matter() {
    assert_same(&[r#""A/""#, r#""\u0041\/""#, r#""A\u002f""#, r#""A\u002F""#]);
    assert_same(&[r#""\"\\""#, r#""\u0022\u005c""#]);
    assert_same(&[r#""\b\f\n\r\t""#, r#""\u0008\u000c\u000a\u000d\u0009""#]);
    assert_same(&["\"é\"", r#""\u00e9""#, r#""\u00E9""#]);
    assert_same(&["\"\u{7f}\u{2028}\"", r#""\u007f\u2028""#]);
    // A name is a string too.
    assert_same(&[r#"{"a/":1,"b":2}"#, r#"{"\u0062":2,"\u0061\/":1}"#]);
}

#[test]
fn a_surrogate_pair_is_the_character_it_stands_for() {
    assert_same(&["\"😀\"", r#""\ud83d\ude00""#, r#""\uD83D\uDE00""#]);
    assert_same(&["\"\u{10000}\u{10ffff}\"", r#""\ud800\udc00\udbff\udfff""#]);
}

#[test]
fn members_stand_in_the_order_of_the_bytes_of_their_unescaped_names() {
    let text = "{\"\\ud800\\udc00\":6,\"\u{fffd}\":5,\"aa\":4,\"a\":3,\"\\\"\":2,\"\":1}";
    // In UTF-16, and as escapes, U+10000 comes before U+FFFD.
    let names = ["", "\"", "a", "aa", "\u{fffd}", "\u{10000}"];
    let members = names
        .iter()
        .zip(b'1'..)
        .map(|(name, digit)| [b"\"", name.as_bytes(), &[0xff, digit, b',']].concat());
    let expected = [b"{".to_vec(), members.collect::<Vec<_>>().concat(), b"}".to_vec()].concat();
    assert_eq!(form(text).unwrap(), expected);
}

#[test]
fn the_form_of_each_kind_of_value_stays_as_it_is() {
    // Stored fingerprints are made of these bytes: a change here refuses the retries of clients
    // that were first answered by an earlier release.
    let text = r#"{"b":[true,false,null,-0.5e+7,"x\n"],"a":{"k":{},"j":[]}}"#;
    let expected: &[u8] =
        b"{\"a\xff{\"j\xff[],\"k\xff{},},\"b\xff[true,false,null,-0.5e+7,\"x\n\xff],}";
    assert_eq!(form(text).unwrap(), expected);
}

#[test]
fn a_member_twice_is_refused_wherever_it_is() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"{"a":1,"b":2,"a":1}"#,
        r#"{"b":1,"a":2,"c":3,"b":1}"#,
        r#"{"":1,"":1}"#,
        r#"[1,[{"x":{"a":1,"b":2,"\u0061":3}}]]"#,
        "{\"😀\":1,\"\\ud83d\\ude00\":2}",
    ] {
        assert_eq!(form(text), Err(NotCanonical::DuplicateMember), "{text}");
    }
    assert!(form(r#"[{"a":1},{"a":1,"b":{"a":1}}]"#).is_ok());
}

#[test]
fn a_large_object_is_checked_for_every_pair() {
    let members = |names: &[usize]| {
        let members: Vec<String> = names.iter().map(|name| format!("\"{name}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    let mut names: Vec<usize> = (0..10_000).rev().collect();
    assert!(form(&members(&names)).is_ok());
    names.push(5_000);
    assert_eq!(form(&members(&names)), Err(NotCanonical::DuplicateMember));
}

#[test]
fn nesting_is_bounded() {
    let array = |depth: usize| format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
    let object =
        |depth: usize| format!("{}1{}", "{\"b\":".repeat(depth), ",\"a\":1}".repeat(depth));
    for text in [array(128), object(128)] {
        assert!(form(&text).is_ok(), "{text}");
    }
    for text in [array(129), object(129), "[".repeat(1_000_000), "{\"a\":[".repeat(100_000)] {
        assert_eq!(form(&text), Err(NotCanonical::TooDeep { max: 128 }));
    }
    // Breadth is no depth.
    assert!(form(&format!("[{}[]]", "[[]],{},".repeat(1_000))).is_ok());
}
