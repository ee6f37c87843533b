//! Honest retries are recognised, whatever their client builds again; other requests are not taken
//! for them.

use std::io::Write as _;

use flate2::{Compression, GzBuilder};
use http::Request;

use crate::support::{Api, Handler, TestBody, With, charge, policy};

/// A request with header fields, and a body.
type Sent = (&'static [(&'static str, &'static str)], Vec<u8>);

fn request((fields, body): &Sent) -> Request<TestBody> {
    let bare = charge("k", bytes::Bytes::from(body.clone()));
    fields.iter().fold(bare, |request, (name, value)| request.with(name, value))
}

/// The second is a retry of the first, and the others are not.
async fn assert_distinct(first: Sent, retries: &[Sent], others: &[Sent]) {
    let api = Api::new(policy(), Handler::counting());
    let reply = api.send(request(&first)).await;
    assert_eq!(reply.status, 201);
    for retry in retries.iter().chain([&first]) {
        api.send(request(retry)).await.assert_replays(&reply);
    }
    for other in others {
        let reply = api.send(request(other)).await;
        reply.assert_problem(409, "idempotency_payload_mismatch", false);
    }
    assert_eq!(api.handler.runs(), 1);
}

fn gzip(text: &[u8], time: u32) -> Vec<u8> {
    let mut encoder = GzBuilder::new().mtime(time).write(Vec::new(), Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_multipart_with_another_boundary_is_a_retry() {
    const ONE: &[(&str, &str)] = &[("content-type", "multipart/form-data; boundary=one")];
    const TWO: &[(&str, &str)] = &[("content-type", "Multipart/Form-Data; Boundary=\"two\"")];
    let body = |boundary: &str, amount: u32| {
        format!("--{boundary}\r\nA: b\r\n\r\n{amount}\r\n--{boundary}--\r\n").into_bytes()
    };
    let others = [(TWO, body("two", 2)), (TWO, body("one", 1)), (&[][..], body("one", 1))];
    assert_distinct((ONE, body("one", 1)), &[(TWO, body("two", 1))], &others).await;
}

#[tokio::test]
async fn a_form_in_another_order_is_a_retry() {
    const FORM: &[(&str, &str)] = &[("content-type", "application/x-www-form-urlencoded")];
    let form = |text: &str| -> Sent { (FORM, text.into()) };
    let retries = [form("b=2&a=1&a=3"), form("a=1&a=3&b=2")];
    let others = [form("a=3&b=2&a=1"), form("a=1&b=2"), form("a=1&b=2&a=3&"), form("")];
    assert_distinct(form("a=1&b=2&a=3"), &retries, &others).await;
}

#[tokio::test]
async fn gzip_of_another_time_is_a_retry() {
    const JSON: (&str, &str) = ("content-type", "text/json");
    const GZIP: &[(&str, &str)] = &[JSON, ("content-encoding", "gzip")];
    const PLAIN: &[(&str, &str)] = &[JSON];
    let text = b"{\"n\":9007199254740993}";
    let retries = [(GZIP, gzip(text, 2)), (GZIP, gzip(b"{ \"n\" : 9007199254740993 }", 3))];
    let others = [
        (GZIP, gzip(b"{\"n\":9007199254740992}", 1)),
        (GZIP, text.to_vec()),
        (GZIP, [gzip(text, 1), b"x".to_vec()].concat()),
        (PLAIN, gzip(text, 1)),
        (PLAIN, text.to_vec()),
    ];
    assert_distinct((GZIP, gzip(text, 1)), &retries, &others).await;
}

/// I10: a bomb costs no more than its bound, and is still one request.
#[tokio::test]
async fn a_bomb_is_a_request_like_others() {
    const GZIP: &[(&str, &str)] = &[("content-encoding", "gzip")];
    let bomb = |time| (GZIP, gzip(&vec![0; 9 << 20], time));
    assert!(bomb(1).1.len() < 1 << 20);
    assert_distinct(bomb(1), &[], &[bomb(2)]).await;
}

#[tokio::test]
async fn identity_and_charsets_that_say_nothing_are_no_difference() {
    const PLAIN: &[(&str, &str)] = &[("content-type", "application/json")];
    const WORDY: &[(&str, &str)] = &[
        ("content-type", "application/JSON; charset=\"UTF-8\""),
        ("content-encoding", "identity"),
    ];
    const OTHER: &[(&str, &str)] = &[("content-type", "application/json; charset=utf-16")];
    let sent = |fields| -> Sent { (fields, b"{}".to_vec()) };
    assert_distinct(sent(PLAIN), &[sent(WORDY)], &[sent(OTHER), sent(&[])]).await;
}

#[tokio::test]
async fn operation_headers_count() {
    const MATCH: &[(&str, &str)] = &[("if-match", "\"1\""), ("prefer", "respond-async")];
    const ORDER: &[(&str, &str)] = &[("prefer", "respond-async"), ("if-match", "\"1\"")];
    const NEWER: &[(&str, &str)] = &[("if-match", "\"2\""), ("prefer", "respond-async")];
    const SYNC: &[(&str, &str)] = &[("if-match", "\"1\"")];
    const TUNNEL: &[(&str, &str)] = &[MATCH[0], MATCH[1], ("x-http-method-override", "DELETE")];
    let sent = |fields| -> Sent { (fields, Vec::new()) };
    let others = [sent(NEWER), sent(SYNC), sent(TUNNEL), sent(&[])];
    assert_distinct(sent(MATCH), &[sent(ORDER)], &others).await;
}
