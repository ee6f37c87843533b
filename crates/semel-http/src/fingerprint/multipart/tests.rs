use proptest::prelude::*;

use super::super::readers::multipart_readings;
use super::*;

type Named = Vec<(&'static str, String)>;

/// What is compared of a body, if it is read.
fn read(body: &str, boundary: &str) -> Option<Named> {
    let mut named = Vec::new();
    Multipart::read(body.as_bytes(), boundary.as_bytes())?.push(&mut named);
    let text = |value: Cow<'_, [u8]>| String::from_utf8_lossy(&value).into_owned();
    Some(named.into_iter().map(|(name, value)| (name, text(value))).collect())
}

const BODY: &str = "--b\r\nContent-Disposition: form-data; name=\"a\"\r\nX:  1 \r\n\r\none\r\n\
                    --b\r\n\r\n\r\n--b--\r\n";

#[test]
fn a_body_is_its_parts() {
    let expected = [
        ("multipart", ""),
        ("part", ""),
        ("part header", "content-disposition"),
        ("part value", "form-data; name=\"a\""),
        ("part header", "x"),
        ("part value", "1"),
        ("part body", "one"),
        ("part", ""),
        ("part body", ""),
        ("epilogue", "\r\n"),
    ];
    let expected = expected.map(|(name, value)| (name, value.to_owned()));
    assert_eq!(read(BODY, "b"), Some(expected.to_vec()));
}

#[test]
fn another_boundary_makes_no_difference() {
    for boundary in ["c", "----WebKitFormBoundary7MA4YWxkTrZu0gW", "a b", "b'()+_,-./:=?"] {
        let body = BODY.replace("--b", &format!("--{boundary}"));
        assert_eq!(read(&body, boundary), read(BODY, "b"), "{boundary}");
    }
}

#[test]
fn all_else_makes_a_difference() {
    for (from, to) in [
        ("one", "two"),
        ("X:  1", "X: 2"),
        ("X:", "Y:"),
        ("\r\nX:  1 ", ""),
        ("form-data", "Form-data"),
        ("--b\r\n\r\n\r\n--b--", "--b--"),
        ("--b--\r\n", "--b--"),
        ("--b--\r\n", "--b--\r\nbye"),
        ("--b\r\nC", "hello\r\n--b\r\nC"),
        ("--b\r\nC", "\r\n--b\r\nC"),
        ("\r\n\r\none", "\r\n\r\n\r\none"),
    ] {
        let other = read(&BODY.replacen(from, to, 1), "b");
        assert!(other.is_some(), "{to}");
        assert_ne!(other, read(BODY, "b"), "{to}");
    }
    let same = BODY.replace("X:  1 ", "x:1").replace("Content-D", "content-D");
    assert_eq!(read(&same, "b"), read(BODY, "b"));
    assert_eq!(read("--b--", "b").map(|named| named.len()), Some(2));
}

/// Names and values cannot flow into each other, nor parts.
#[test]
fn two_parts_are_not_one() {
    let one = read("--b\r\n\r\n1\r\n--c\r\n\r\n2\r\n--b--", "b").unwrap();
    let two = read("--b\r\n\r\n1\r\n--b\r\n\r\n2\r\n--b--", "b").unwrap();
    assert_ne!(one, two);
}

#[test]
fn ambiguous_multipart_is_not_read() {
    for (from, to) in [
        ("one", "--b"),
        ("one", "1--b1"),
        ("one", "1\n--b\n1"),
        ("one", "1\r\n--bc\r\n1"),
        ("--b\r\n\r\n\r\n", "--b \r\n\r\n\r\n"),
        ("--b--\r\n", ""),
        ("--b--\r\n", "--b"),
        ("--b--\r\n", "--b-\r\n"),
        ("--b--\r\n", "--b--x"),
        ("--b--\r\n", "--b--\n"),
        ("--b--\r\n", "--b--\r\n--b--"),
        ("--b\r\nC", "x--b\r\nC"),
        ("--b\r\nC", "\n--b\r\nC"),
        ("--b\r\nC", "--b\nC"),
        ("\r\n\r\none\r\n", "\r\none\r\n"),
        ("--b\r\n\r\n\r\n", "--b\r\n\r\n"),
        ("--b\r\n\r\n\r\n", "--b\r\n"),
        ("X:  1 ", "X :1"),
        ("X:  1 ", " X: 1"),
        ("X:  1 ", "X"),
        ("X:  1 ", ": 1"),
        ("X:  1 ", "X: 1\nY: 2"),
        ("X:  1 ", "X: 1\rY: 2"),
        ("X:  1 ", "X: 1\0"),
        ("X:  1 ", "\nX: 1"),
    ] {
        assert_eq!(read(&BODY.replacen(from, to, 1), "b"), None, "{to:?}");
    }
    let long = "b".repeat(71);
    for boundary in ["", "x", "b\"", "b\u{e9}", "b ", &long] {
        assert_eq!(
            read(&BODY.replace("--b", &format!("--{boundary}")), boundary).is_some(),
            boundary == "x"
        );
    }
    assert_eq!(read(BODY, "x"), None);
    assert_eq!(read("", "b"), None);
}

/// I10.
#[test]
fn parts_and_headers_have_a_limit() {
    let parts = |count: usize| format!("{}--b--", "--b\r\n\r\n\r\n".repeat(count));
    let headers = |count: usize| format!("--b\r\n{}\r\n\r\n--b--", "a: b\r\n".repeat(count));
    assert!(read(&parts(1000), "b").is_some() && read(&parts(1001), "b").is_none());
    assert!(read(&headers(32), "b").is_some() && read(&headers(33), "b").is_none());
}

fn soup() -> impl Strategy<Value = String> {
    let pieces = [
        "--b",
        "--c",
        "--b--",
        "--c--",
        "--b\r\n\r\n",
        "\r\n--b\r\n",
        "\r\n--b--",
        "\r\n",
        "\n",
        "\r",
        "\r\n\r\n",
        "--",
        "-",
        "b",
        "c",
        "x",
        "a: b",
        "A:",
        " ",
    ];
    let pieces = prop::collection::vec(prop::sample::select(pieces.to_vec()), 0..10);
    pieces.prop_map(|pieces| format!("--b\r\n{}\r\n--b--", pieces.concat()))
}

proptest! {
    /// Bodies that are one here hold the same parts to strict and to lenient servers.
    #[test]
    fn parts_are_one_only_if_all_servers_agree(body in soup()) {
        let other = body.replace("--b", "--c");
        if let (Some(one), Some(two)) = (read(&body, "b"), read(&other, "c"))
            && one == two
        {
            let readings = [(&body, "b"), (&other, "c")]
                .map(|(body, boundary)| multipart_readings(body.as_bytes(), boundary.as_bytes()));
            prop_assert_eq!(&readings[0], &readings[1]);
        }
    }
}
