//! A retry gets the first answer back, byte for byte (I4). Trap 12.

use crate::support::{Answer, Call, Fields, Reply, Setup, Upstream};

const OURS: [&str; 2] = ["x-idempotency-replayed", "idempotent-replayed"];

/// The first answer and a replay, of a gateway that was restarted in between if asked.
fn answers(policy: &str, scripted: Reply, restart: bool) -> (Answer, Answer) {
    let upstream = Upstream::with(move |_| scripted.clone());
    let mut gateway = Setup::before(&upstream).policy(policy).start();
    let first = Call::charge("k").send(&gateway);
    if restart {
        gateway = gateway.kill().start();
    }
    let replay = Call::charge("k").send(&gateway);
    assert_eq!(upstream.count(), 1);
    (first, replay)
}

/// They differ in nothing but the mark of a replay.
fn assert_same(first: &Answer, replay: &Answer) {
    assert_eq!(first.status, replay.status);
    assert!(first.body == replay.body, "{:?} and {:?}", first.text(), replay.text());
    let mut fields = replay.fields.clone();
    fields.0.retain(|(name, _)| !OURS.contains(&name.as_str()));
    let sorted = |fields: &Fields| {
        // The order of different names means nothing; that of one name's values does.
        let mut fields = fields.0.clone();
        fields.sort_by(|(one, _), (other, _)| one.cmp(other));
        fields
    };
    assert_eq!(sorted(&first.fields), sorted(&fields));
}

fn with_many_fields() -> Reply {
    Reply::new(201, "{\"id\": \"ch_1\"}\n")
        .field("Content-Type", "application/json;charset=utf-8")
        .field("Date", "Tue, 15 Nov 1994 08:12:31 GMT")
        .field("Location", "/v1/charges/ch_1")
        .field("Link", "</a>; rel=\"next\"")
        .field("Link", "</b>; rel=\"last\"")
        .field("Vary", "Accept")
        .field("X-Empty", "")
        .field("Vary", "Accept-Encoding")
        .field("ETag", "\"abc\"")
        .field("Server", "as scripted")
        .field("X-Request-Id", "1234")
}

#[test]
fn a_replay_has_every_header_value_in_order() {
    let (first, replay) = answers("", with_many_fields(), false);
    assert_same(&first, &replay);
    assert_eq!(replay.headers("link"), ["</a>; rel=\"next\"", "</b>; rel=\"last\""]);
    assert_eq!(replay.headers("vary"), ["Accept", "Accept-Encoding"]);
    assert_eq!(
        replay.headers("date"),
        ["Tue, 15 Nov 1994 08:12:31 GMT"],
        "not the day it was made"
    );
    assert_eq!(replay.headers("x-empty"), [""]);
    assert_eq!(replay.headers("x-idempotency-replayed"), ["true"]);
    assert_eq!(first.header("x-idempotency-replayed"), None);
}

/// Durable: a replay after a crash of the gateway is the same.
#[test]
fn a_replay_after_a_restart_is_the_same() {
    let (first, replay) = answers("", with_many_fields(), true);
    assert_same(&first, &replay);
    assert!(replay.is_replay());
}

/// I7: a restart brings back the whole record, its fingerprint and its scope too.
#[test]
fn after_a_restart_the_record_keeps_its_fingerprint_and_scope() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let call = Call::charge("k").from("Bearer alice");
    call.send(&gateway);
    let gateway = gateway.kill().start();
    let other = call.clone().json("{}").send(&gateway);
    other.assert_problem(409, "idempotency_payload_mismatch", false);
    assert!(!Call::charge("k").from("Bearer bob").send(&gateway).is_replay());
    assert!(call.send(&gateway).is_replay());
}

#[test]
fn a_binary_body_is_replayed_byte_for_byte() {
    let body: Vec<u8> = (0..=255).cycle().take(100_003).collect();
    let scripted = Reply::new(200, body.clone()).field("Content-Type", "application/octet-stream");
    let (first, replay) = answers("", scripted, true);
    assert_same(&first, &replay);
    assert!(replay.body == body, "{} bytes", replay.body.len());
}

/// A body that does not compress, on both sides of the sizes that are kept in other ways.
#[test]
fn bodies_of_all_sizes_are_replayed() {
    for size in [1, 511, 512, 513, 64 << 10, (64 << 10) + 1, 1 << 20] {
        let body: Vec<u8> = (0..size).map(|_| rand::random()).collect();
        let (first, replay) = answers("", Reply::new(200, body.clone()), false);
        assert_same(&first, &replay);
        assert!(replay.body == body, "{size}");
    }
}

/// Trap 12: an empty result is replayed as an empty result, not as `null`.
#[test]
fn an_empty_body_is_replayed_as_empty() {
    let (first, replay) = answers("", Reply::new(200, "").field("X-A", "1"), true);
    assert_same(&first, &replay);
    assert_eq!((replay.body.len(), replay.header("content-length")), (0, Some("0")));
    let (first, replay) = answers("", Reply::new(204, "").field("X-A", "1"), true);
    assert_same(&first, &replay);
    assert_eq!((replay.status, replay.header("content-length")), (204, None));
    assert_eq!(replay.header("transfer-encoding"), None);
}

/// What concerns the upstream's connection reaches no client, first or later.
#[test]
fn hop_by_hop_fields_are_never_passed_on() {
    let scripted = Reply::new(200, "a")
        .field("Connection", "X-Private")
        .field("X-Private", "secret")
        .field("Keep-Alive", "timeout=5")
        .field("Proxy-Authenticate", "Basic")
        .field("Upgrade", "h2c")
        .field("X-Kept", "1");
    let (first, replay) = answers("", scripted, false);
    assert_same(&first, &replay);
    for name in ["connection", "x-private", "keep-alive", "proxy-authenticate", "upgrade"] {
        assert_eq!(replay.header(name), None, "{name}");
    }
    assert_eq!(replay.header("x-kept"), Some("1"));
}

/// `X-Idempotency-Expires`: an HTTP date, the same for the first answer and all replays.
#[test]
fn both_answers_say_until_when_a_retry_is_replayed() {
    let (first, replay) = answers("ttl = \"36h\"", Reply::new(200, "a"), true);
    let expires = first.headers("x-idempotency-expires");
    assert_eq!(expires, replay.headers("x-idempotency-expires"));
    assert_eq!(expires.len(), 1);
    let date = |text: &str| {
        let output = std::process::Command::new("date").args(["-u", "+%s", "-d", text]).output();
        let output = String::from_utf8(output.expect("date").stdout).expect("a number");
        output.trim().parse::<i64>().unwrap_or_else(|_| panic!("{text}"))
    };
    let left = date(expires[0]) - date("now");
    assert!((left - 36 * 3_600).abs() < 60, "{left} s");
    assert!(expires[0].ends_with(" GMT") && expires[0].len() == 29, "{}", expires[0]);
}

/// Profile stripe marks a replay in its own way, and a route may choose marks.
#[test]
fn the_mark_of_a_replay_can_be_chosen() {
    let (first, replay) = answers("profile = \"stripe\"", Reply::new(200, "a"), false);
    assert_eq!(replay.header("idempotent-replayed"), Some("true"));
    assert_eq!(first.header("idempotent-replayed"), None);
    assert!(!replay.is_replay());
    let policy = "replay_headers = [\"X-Cache-Lookup: HIT\", \"X-Again: yes\"]";
    let (first, replay) = answers(policy, Reply::new(200, "a"), false);
    assert_eq!(first.header("x-cache-lookup"), None);
    assert_eq!(replay.header("x-cache-lookup"), Some("HIT"));
    assert_eq!(replay.header("x-again"), Some("yes"));
}

/// An upstream cannot make a first answer look like a replay, nor a replay like a first answer.
#[test]
fn the_mark_of_a_replay_comes_once() {
    let scripted = Reply::new(200, "a").field("X-Idempotency-Replayed", "false");
    let (_, replay) = answers("", scripted, false);
    assert_eq!(replay.headers("x-idempotency-replayed"), ["true"]);
}
