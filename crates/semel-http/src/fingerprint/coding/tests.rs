use std::io::Write as _;

use flate2::{Compression, GzBuilder};

use super::*;

fn gzip(text: &[u8], time: u32, level: u32) -> Vec<u8> {
    let builder = GzBuilder::new().mtime(time).filename(format!("file {time}"));
    let mut encoder = builder.write(Vec::new(), Compression::new(level));
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn decoded(body: &[u8]) -> Option<Vec<u8>> {
    gunzip(body, 1000)
}

#[test]
fn gzip_metadata_is_not_compared() {
    let text = b"some text, some text".as_slice();
    for (time, level) in [(0, 0), (1, 1), (2, 9)] {
        assert_eq!(decoded(&gzip(text, time, level)).as_deref(), Some(text));
    }
}

/// Some servers read the first member only: two members must not be one with all of their text.
#[test]
fn only_a_single_member_is_decoded() {
    let members = [b"a".as_slice(), b"", b"bc"].map(|text| gzip(text, 1, 6));
    for (member, text) in members.iter().zip([b"a".as_slice(), b"", b"bc"]) {
        assert_eq!(decoded(member).as_deref(), Some(text));
        for other in &members {
            assert_eq!(decoded(&[member.as_slice(), other].concat()), None);
        }
    }
}

/// I10: what a body says of its length is all that is decoded of it.
#[test]
fn a_body_that_holds_more_than_it_says_is_not_decoded() {
    let mut body = gzip(&vec![0; 1 << 20], 1, 9);
    let at = body.len() - 4;
    body[at..].copy_from_slice(&10_u32.to_le_bytes());
    assert_eq!(gunzip(&body, 10 << 20), None);
}

#[test]
fn incomplete_gzip_is_not_decoded() {
    let whole = gzip(b"some text", 1, 6);
    for end in 0..whole.len() {
        assert_eq!(decoded(&whole[..end]), None, "{end}");
    }
    for garbage in [b"\0".as_slice(), b"x", b"\x1f", b"\x1f\x8b", b"\0\0\0\0\0\0\0\0\0\0\0\0"] {
        assert_eq!(decoded(&[&whole, garbage].concat()), None, "{garbage:?}");
    }
    for (at, name) in [(0, "magic"), (whole.len() - 1, "length"), (whole.len() - 5, "checksum")] {
        let mut broken = whole.clone();
        broken[at] ^= 1;
        assert_eq!(decoded(&broken), None, "{name}");
    }
}

/// I10: a small body may hold a large one.
#[test]
fn a_bomb_is_not_decoded_beyond_the_bound() {
    let bomb = gzip(&vec![0; 10 << 20], 1, 9);
    assert!(bomb.len() < 20_000);
    assert_eq!(gunzip(&bomb, (10 << 20) - 1), None);
    assert_eq!(gunzip(&bomb, 10 << 20).map(|decoded| decoded.len()), Some(10 << 20));
}

fn coding(values: &[&str]) -> String {
    let value = |value: &&str| (header::CONTENT_ENCODING, HeaderValue::from_str(value).unwrap());
    let headers: HeaderMap = values.iter().map(value).collect();
    match Coding::of(&headers) {
        Coding::Identity => "identity".to_owned(),
        Coding::Gzip => "only gzip".to_owned(),
        Coding::Other(codings) => String::from_utf8(codings.join(&b' ')).unwrap(),
        Coding::Unclear => "unclear".to_owned(),
    }
}

#[test]
fn identity_and_nothing_are_no_coding() {
    for none in [&[][..], &[""], &["identity"], &["Identity, ,identity"], &["identity", "IDENTITY"]]
    {
        assert_eq!(coding(none), "identity", "{none:?}");
    }
    for gzip in [&["gzip"][..], &["X-GZIP"], &["identity, gzip"], &["identity", "GZip ,"]] {
        assert_eq!(coding(gzip), "only gzip", "{gzip:?}");
    }
    assert_eq!(coding(&["br"]), "br");
    assert_eq!(coding(&["GZIP, x-gzip", "Br"]), "gzip gzip br");
    assert_eq!(coding(&["gzip;q=1"]), "unclear");
    assert_eq!(coding(&["\"gzip\""]), "unclear");
}
