//! What a replay carries: the first answer, exactly, and the marks of a replay.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use semel_http::{Profile, RoutePolicyBuilder};

use crate::support::{Api, Handler, Reply, Step, TestBody, With, charge, policy};

/// The first answer and its replay.
async fn first_and_replay(policy: RoutePolicyBuilder, handler: Handler) -> (Reply, Reply) {
    let api = Api::new(policy, handler);
    let first = api.send(charge("k", "100")).await;
    let replay = api.send(charge("k", "100")).await;
    assert_eq!(api.handler.runs(), 1);
    (first, replay)
}

#[tokio::test]
async fn every_value_of_every_end_to_end_header_comes_again_in_order() {
    let handler = Handler::replying(|_| {
        let response = Response::new(TestBody::from("ok"));
        let mut response = response
            .with("link", "</a>; rel=next")
            .with("x-first", "1")
            .with("link", "</b>; rel=last")
            .with("link", "")
            .with("content-type", "text/plain")
            .with("etag", "\"v1\"")
            .with("content-length", "2");
        let opaque = HeaderValue::from_bytes(b"caf\xe9").unwrap();
        response.headers_mut().append("x-opaque", opaque);
        response
    });
    let (first, replay) = first_and_replay(policy(), handler).await;
    assert_eq!(replay.values("link"), [&b"</a>; rel=next"[..], b"</b>; rel=last", b""]);
    assert_eq!(replay.values("x-opaque"), [b"caf\xe9"]);
    assert_eq!(replay.header("content-length"), Some("2"));
    let mut marked = first.headers;
    marked.insert("x-idempotency-replayed", HeaderValue::from_static("true"));
    assert_eq!(replay.headers, marked);
}

#[tokio::test]
async fn any_bytes_of_a_body_are_replayed() {
    let noise: Bytes = (0..=255_u8).cycle().take(100_000).collect();
    let zeros = Bytes::from(vec![0; 70_000]);
    for body in [noise, zeros, Bytes::from_static(b"\xff\xfe\0\r\n")] {
        let sent = body.clone();
        let handler = Handler::replying(move |_| Response::new(sent.clone().into()));
        let (first, replay) = first_and_replay(policy(), handler).await;
        assert_eq!(first.body, body);
        replay.assert_replays(&first);
    }
}

#[tokio::test]
async fn a_chunked_body_is_replayed_complete() {
    let handler = Handler::replying(|_| {
        let steps = [Step::data("one "), Step::Yield, Step::data(""), Step::data("two")];
        Response::new(TestBody::of(steps))
    });
    let (first, replay) = first_and_replay(policy(), handler).await;
    assert_eq!(first.body, "one two");
    replay.assert_replays(&first);
}

#[tokio::test]
async fn statuses_that_are_kept_come_again() {
    for status in [200, 201, 202, 204, 299, 303, 307, 400, 402, 404, 409, 422] {
        let (first, replay) = first_and_replay(policy(), Handler::answering(status)).await;
        assert_eq!(first.status, status);
        replay.assert_replays(&first);
    }
}

#[tokio::test]
async fn an_empty_body_comes_again_empty() {
    for body in [|| TestBody::from(""), || TestBody::of([])] {
        let handler = Handler::replying(move |_| {
            let response = Response::builder().status(204).body(body()).unwrap();
            response.with("content-type", "application/json")
        });
        let (first, replay) = first_and_replay(policy(), handler).await;
        assert_eq!((replay.status, replay.body.len()), (204, 0));
        assert!(replay.trailers.is_none() && replay.header("x-idempotency-body").is_none());
        replay.assert_replays(&first);
    }
}

#[tokio::test]
async fn cookies_are_given_once_unless_the_route_replays_them() {
    for replay_cookies in [false, true] {
        let handler = Handler::replying(|_| {
            let response = Response::new(TestBody::from("ok"));
            response.with("set-cookie", "a=1").with("x-kept", "1").with("set-cookie", "b=2")
        });
        let policy = policy().replay_cookies(replay_cookies);
        let (first, replay) = first_and_replay(policy, handler).await;
        let cookies = [&b"a=1"[..], b"b=2"];
        assert_eq!(first.values("set-cookie"), cookies);
        assert_eq!(replay.values("set-cookie"), if replay_cookies { &cookies[..] } else { &[] });
        assert_eq!(replay.header("x-kept"), Some("1"));
    }
}

#[tokio::test]
async fn headers_of_one_connection_are_not_given_on() {
    let hop_by_hop = ["connection", "keep-alive", "transfer-encoding", "upgrade", "x-private"];
    let handler = Handler::replying(|_| {
        Response::new(TestBody::from("ok"))
            .with("connection", "keep-alive, x-private")
            .with("keep-alive", "timeout=5")
            .with("transfer-encoding", "chunked")
            .with("upgrade", "h2c")
            .with("x-private", "1")
            .with("x-kept", "1")
    });
    let (first, replay) = first_and_replay(policy(), handler).await;
    for reply in [first, replay] {
        assert_eq!(reply.header("x-kept"), Some("1"));
        for name in hop_by_hop {
            assert_eq!(reply.header(name), None, "{name}");
        }
    }
}

#[tokio::test]
async fn first_answers_and_replays_say_until_when() {
    let api = Api::new(policy(), Handler::counting());
    let first = api.send(charge("k", "100")).await;
    api.clock.advance(std::time::Duration::from_hours(23));
    let replay = api.send(charge("k", "100")).await;
    for reply in [&first, &replay] {
        assert_eq!(reply.header("x-idempotency-expires"), Some("Fri, 02 Jan 2026 00:00:00 GMT"));
    }
    assert!(replay.is_replayed() && !first.is_replayed());
}

#[tokio::test]
async fn a_replay_is_marked_as_its_profile_has_it() {
    for (profile, name, other) in [
        (Profile::Classic, "x-idempotency-replayed", "idempotent-replayed"),
        (Profile::Ietf, "x-idempotency-replayed", "idempotent-replayed"),
        (Profile::Stripe, "idempotent-replayed", "x-idempotency-replayed"),
    ] {
        let policy = policy().profile(profile);
        let (first, replay) = first_and_replay(policy, Handler::counting()).await;
        assert_eq!((replay.header(name), replay.header(other)), (Some("true"), None));
        assert_eq!((first.header(name), first.header(other)), (None, None));
        assert_eq!(replay.body, first.body);
    }
}

#[tokio::test]
async fn a_route_can_mark_replays_its_own_way() {
    let mark = |name, value| (HeaderName::from_static(name), HeaderValue::from_static(value));
    let marks = vec![mark("x-cache-lookup", "HIT"), mark("x-again", "yes")];
    let (first, replay) =
        first_and_replay(policy().replay_headers(marks), Handler::counting()).await;
    assert_eq!(replay.header("x-cache-lookup"), Some("HIT"));
    assert_eq!(replay.header("x-again"), Some("yes"));
    assert_eq!(replay.header("x-idempotency-replayed"), None);
    assert_eq!(first.header("x-cache-lookup"), None);
}

/// As gRPC services answer: the status comes after the body.
#[tokio::test]
async fn trailers_come_again() {
    let handler = Handler::replying(|seen| {
        assert_eq!(seen.trailers.as_ref().unwrap()["x-checksum"], "1");
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        trailers.append("grpc-note", HeaderValue::from_static("a"));
        trailers.append("grpc-note", HeaderValue::from_static("b"));
        let steps = [Step::data("\0\0\0\0\u{2}ok"), Step::Trailers(trailers)];
        Response::new(TestBody::of(steps)).with("content-type", "application/grpc")
    });
    let api = Api::new(policy(), handler);
    let send = || {
        let mut trailers = HeaderMap::new();
        trailers.insert("x-checksum", HeaderValue::from_static("1"));
        let body = TestBody::of([Step::data("\0\0\0\0\u{1}a"), Step::Trailers(trailers)]);
        let mut request = charge("k", body).with("content-type", "application/grpc");
        *request.version_mut() = http::Version::HTTP_2;
        api.send(request)
    };
    let (first, replay) = (send().await, send().await);
    replay.assert_replays(&first);
    assert_eq!(replay.trailers, first.trailers);
    let trailers = replay.trailers.unwrap();
    assert_eq!(trailers["grpc-status"], "0");
    assert_eq!(trailers.get_all("grpc-note").iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(api.handler.runs(), 1);
}

/// A server adds a missing `Date`, and would add another one to each replay (I4).
#[tokio::test]
async fn a_reply_without_a_date_gets_one_for_good() {
    let api = Api::new(policy(), Handler::counting());
    let first = api.send(charge("k", "100")).await;
    let again = api.send(charge("k", "100")).await;
    assert!(first.header("date").is_some());
    assert_eq!(first.header("date"), again.header("date"));
}
