//! Look-ups by pointer.

use super::*;

fn found(text: &str, pointer: &str) -> Result<Option<Scalar>, NotCanonical> {
    find(text.as_bytes(), &Pointer::parse(pointer).unwrap())
}

#[test]
fn each_kind_of_value_is_found_with_its_kind() {
    let text = r#" {"n":-1.50E+3,"s":"\u0041\n😀\ud83d\ude00","e":"","t":true,"f":false,
        "z":null,"o":{"k":"v","":"empty"},"l":[0,[10,"x"]],"a/b~":"slash"} "#;
    let string = |text: &str| Some(Scalar::String(text.into()));
    let number = |text: &str| Some(Scalar::Number(text.into()));
    for (pointer, value) in [
        ("/n", number("-1.50E+3")),
        ("/s", string("A\n😀😀")),
        ("/e", string("")),
        ("/t", Some(Scalar::Other)),
        ("/f", Some(Scalar::Other)),
        ("/z", Some(Scalar::Other)),
        ("/o", Some(Scalar::Other)),
        ("/o/k", string("v")),
        ("/o/", string("empty")),
        ("/l", Some(Scalar::Other)),
        ("/l/0", number("0")),
        ("/l/1/0", number("10")),
        ("/l/1/1", string("x")),
        ("/a~1b~0", string("slash")),
        ("", Some(Scalar::Other)),
        ("/x", None),
        ("/l/2", None),
        ("/l/-", None),
        ("/l/00", None),
        ("/n/0", None),
        ("/o/k/v", None),
        ("/o/0", None),
    ] {
        assert_eq!(found(text, pointer), Ok(value), "{pointer}");
    }
}

#[test]
fn a_text_may_be_a_bare_scalar() {
    assert_eq!(found("\"k\"", ""), Ok(Some(Scalar::String("k".into()))));
    assert_eq!(found(" 7 ", ""), Ok(Some(Scalar::Number("7".into()))));
    assert_eq!(found("7", "/"), Ok(None));
}

#[test]
fn every_digit_of_a_number_is_kept() {
    let digits = "90071992547409931234567890.000000000000000000010";
    let text = format!("[{digits}]");
    assert_eq!(found(&text, "/0"), Ok(Some(Scalar::Number(digits.into()))));
}

#[test]
fn a_doubtful_text_yields_no_value() {
    for (text, error) in [
        (r#"{"k":"1","k":"2"}"#, NotCanonical::DuplicateMember),
        (r#"{"k":"1","\u006b":"1"}"#, NotCanonical::DuplicateMember),
        (r#"{"k":"1","x":[{"a":1,"a":1}]}"#, NotCanonical::DuplicateMember),
        (r#"{"x":{"b":1,"a":1,"b":1},"k":"1"}"#, NotCanonical::DuplicateMember),
        (r#"{"k":"1"} x"#, NotCanonical::Syntax { at: 10 }),
        (r#"{"k":"1","#, NotCanonical::Syntax { at: 9 }),
        (r#"{"k":"\ud800"}"#, NotCanonical::LoneSurrogate),
        ("", NotCanonical::Syntax { at: 0 }),
    ] {
        assert_eq!(found(text, "/k"), Err(error), "{text}");
    }
    let pointer = Pointer::parse("/k").unwrap();
    assert_eq!(find(b"{\"k\":\"\xff\"}", &pointer), Err(NotCanonical::NotUtf8));
}
