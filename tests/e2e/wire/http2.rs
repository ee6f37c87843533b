//! HTTP/2, without TLS and with it: the same contract on many streams at once.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt as _, Full};
use tokio::time::timeout;

use crate::support::{After, Gate, Gateway, Http2, LIMIT, Upstream, answer};

/// Short time limits, so that slow clients are found soon.
const SLOW: &str = "[limits]\nbody_idle_timeout = \"400ms\"\n";
const REPLAYED: &str = "x-idempotency-replayed";

#[tokio::test]
async fn a_retry_is_replayed_also_over_another_version() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    let first = client.post("/a", "k", "hello").await;
    assert_eq!((first.status().as_u16(), &first.body()[..]), (200, &b"POST /a 5"[..]));
    assert!(!first.headers().contains_key(REPLAYED));
    let retry = client.post("/a", "k", "hello").await;
    assert_eq!(retry.headers()[REPLAYED], "true");
    assert_eq!(retry.body(), first.body());
    let other = gateway.ask(crate::support::post("/a", "k", "hello"));
    assert!(other.is_replay());
    assert_eq!(other.body, first.body().to_vec());
    assert_eq!(upstream.count_of("/a"), 1);
    // The upstream gets HTTP/1.1 with the right Host, and the client's protocol version.
    let seen = &upstream.seen()[0];
    assert_eq!(seen.header("host"), Some(upstream.address().to_string().as_str()));
    assert_eq!(seen.header("x-forwarded-host"), Some("a"));
    assert_eq!(seen.header("via"), Some("2.0 semel"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_streams_with_one_key_execute_once() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::new(move |seen, line| {
        held.pass();
        line.send(&answer(seen, "done"))?;
        Ok(After::Keep)
    });
    let upstream = Arc::new(upstream);
    let gateway = Gateway::start(&upstream, "[policy]\nin_flight = \"wait\"\n");
    let client = Http2::plain(gateway.listen()).await;
    let streams: Vec<_> = (0..100)
        .map(|_| {
            let client = client.clone();
            tokio::spawn(async move { client.post("/once", "k", "hello").await })
        })
        .collect();
    let waiting = upstream.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for("/once", 1)).await.unwrap();
    gate.open();
    let mut replays = 0;
    for stream in streams {
        let response = stream.await.unwrap();
        assert_eq!((response.status().as_u16(), &response.body()[..]), (200, &b"done"[..]));
        replays += usize::from(response.headers().contains_key(REPLAYED));
    }
    assert_eq!((replays, upstream.count_of("/once")), (99, 1));
}

#[tokio::test]
async fn early_answers_do_not_disturb_other_streams() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "[policy]\nmax_request_body = \"64KiB\"\n");
    let client = Http2::plain(gateway.listen()).await;
    let large = || Full::from(Bytes::from(vec![b'x'; 1 << 20]));
    for round in 0..20 {
        let missing = Request::post("http://a/a").body(large()).unwrap();
        let too_large = Request::post("http://a/a").header("idempotency-key", "k");
        let too_large = too_large.body(large()).unwrap();
        let two_keys = Request::post("http://a/a").header("idempotency-key", "k");
        let two_keys = two_keys.header("idempotency-key", "l").body(large()).unwrap();
        let (missing, too_large, two_keys, fine) = tokio::join!(
            client.ask(missing),
            client.ask(too_large),
            client.ask(two_keys),
            client.get("/fine"),
        );
        let statuses = [missing, too_large, two_keys, fine].map(|it| it.status().as_u16());
        assert_eq!(statuses, [400, 413, 400, 200], "round {round}");
    }
    assert_eq!((upstream.count_of("/a"), upstream.count_of("/fine")), (0, 20));
}

#[tokio::test]
async fn large_bodies_go_through_in_both_directions() {
    const LEN: usize = 8 << 20;
    let upstream = Upstream::new(|seen, line| {
        let reply = if seen.method == "GET" { "y".repeat(LEN) } else { seen.summary() };
        line.send(&answer(seen, &reply))?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    let body = Full::from(Bytes::from(vec![b'x'; LEN]));
    let up = client.ask(Request::put("http://a/up").body(body).unwrap()).await;
    assert_eq!(up.body(), format!("PUT /up {LEN}").as_bytes());
    let down = client.get("/down").await;
    assert_eq!(down.body().len(), LEN);
    assert!(down.body().iter().all(|byte| *byte == b'y'));
}

#[tokio::test]
async fn hop_by_hop_fields_and_fences_of_a_client_do_not_reach_the_upstream() {
    let upstream = Upstream::new(|_, line| {
        line.send(
            b"HTTP/1.1 200 OK\r\nConnection: keep-alive, x-private\r\nX-Private: 1\r\n\
              Keep-Alive: timeout=5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
        )?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    let request =
        Request::post("http://a/a").header("idempotency-key", "k").header("te", "trailers");
    let request = request.header("idempotency-fence", "999").body(Full::default()).unwrap();
    let response = client.ask(request).await;
    assert_eq!(&response.body()[..], b"ok");
    assert!(!response.headers().contains_key("x-private"));
    let seen = &upstream.seen()[0];
    assert_eq!(seen.header("te"), None);
    assert_eq!(seen.header("idempotency-fence"), Some("1"));
}

/// HTTP/1.1 has one Cookie field, and servers look at the first.
#[tokio::test]
async fn crumbs_of_cookies_are_joined() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "[policy]\nscope = [\"cookie:b\"]\n");
    let client = Http2::plain(gateway.listen()).await;
    let call = |crumbs: &[&'static str]| {
        let request = Request::post("http://a/a").header("idempotency-key", "k");
        let request =
            crumbs.iter().fold(request, |request, crumb| request.header("cookie", *crumb));
        client.ask(request.body(Full::default()).unwrap())
    };
    assert!(!call(&["a=1", "b=2", "c=3"]).await.headers().contains_key(REPLAYED));
    assert!(call(&["b=2", "a=9"]).await.headers().contains_key(REPLAYED));
    assert!(!call(&["a=1", "b=3"]).await.headers().contains_key(REPLAYED));
    let seen = upstream.seen();
    let cookies: Vec<_> = seen.iter().map(|seen| seen.header("cookie")).collect();
    assert_eq!(cookies, [Some("a=1; b=2; c=3"), Some("a=1; b=3")]);
}

/// What HTTP/1.1 would read in another way is refused, and the connection goes on.
#[tokio::test]
async fn fields_that_http_1_reads_otherwise_are_refused_on_their_stream_only() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    for fields in [
        &[("x", " a")][..],
        &[("x", "a ")],
        &[("x", "\ta")],
        &[("authorization", "Bearer a ")],
        &[("idempotency-key", " k")],
        &[("content-length", "5"), ("content-length", "5")],
    ] {
        let mut request = Request::put("http://a/a");
        for (name, value) in fields {
            request = request.header(*name, http::HeaderValue::from_static(value));
        }
        let response = client.ask(request.body(Full::from("hello")).unwrap()).await;
        assert_eq!(response.status(), 400, "{fields:?}");
    }
    assert_eq!(client.get("/next").await.status(), 200);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn methods_in_small_letters_are_refused_on_their_stream_only() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    let request = Request::builder().method("post").uri("http://a/a").body(Full::default());
    let response = client.ask(request.unwrap()).await;
    assert_eq!(response.status(), 400);
    assert_eq!(client.get("/next").await.status(), 200);
    assert_eq!(upstream.seen().len(), 1);
}

/// A trailer is no place for a session: the first client sees it, and the record never.
#[tokio::test]
async fn a_cookie_in_a_trailer_is_neither_kept_nor_replayed() {
    let upstream = Upstream::new(|_, line| {
        line.send(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: set-cookie, x-sum\r\n\r\n\
              2\r\nok\r\n0\r\nSet-Cookie: session=1\r\nX-Sum: 7\r\n\r\n",
        )?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "[policy]\nreplay_cookies = true\n");
    let client = Http2::plain(gateway.listen()).await;
    client.post("/a", "k", "").await;
    let mut retry = client.begin_post("/a", "k").await;
    assert_eq!(retry.headers()[REPLAYED], "true");
    let collected = timeout(LIMIT, retry.body_mut().collect()).await.unwrap().unwrap();
    let trailers = collected.trailers().unwrap();
    assert_eq!(trailers["x-sum"], "7");
    assert!(!trailers.contains_key("set-cookie"), "{trailers:?}");
}

#[tokio::test]
async fn connect_is_refused_on_its_stream_only() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let client = Http2::plain(gateway.listen()).await;
    let connect = Request::connect("a:80").body(Full::default()).unwrap();
    assert_eq!(client.ask(connect).await.status(), 400);
    assert_eq!(client.get("/next").await.status(), 200);
    assert_eq!(upstream.seen().len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_taken_is_given_up_on_its_stream_only() {
    let upstream = Upstream::new(|seen, line| {
        if seen.target == "/small" {
            line.send(b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")?;
            return Ok(After::Close);
        }
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")?;
        let piece = vec![b'x'; 1 << 20];
        (0..1024).try_for_each(|_| line.send(&piece))?;
        Ok(After::Close)
    });
    let upstream = Arc::new(upstream);
    let gateway = Gateway::start(&upstream, SLOW);
    // One takes nothing at all, one takes a little and then no more.
    for window in [0, 100_000] {
        let client = Http2::with_window(gateway.listen(), window).await;
        let stuck = client.begin("/big").await;
        assert_eq!(stuck.status(), 200);
        assert_eq!(client.get("/small").await.status(), 204);
        // It ends because the gateway gives up: the client is still there.
        let waiting = upstream.clone();
        tokio::task::spawn_blocking(move || waiting.finished()).await.unwrap();
        let rest = timeout(LIMIT, stuck.into_body().collect()).await.unwrap();
        assert!(rest.is_err(), "an answer that was given up looks whole");
        assert_eq!(client.get("/small").await.status(), 204);
    }
    assert_eq!((upstream.count_of("/big"), upstream.count_of("/small")), (2, 4));
}

#[tokio::test]
async fn a_body_that_stops_is_answered_on_its_stream_only() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, SLOW);
    let client = Http2::plain(gateway.listen()).await;
    let passed = Request::put("http://a/slow");
    let protected = Request::post("http://a/slow").header("idempotency-key", "k");
    for request in [passed, protected] {
        let (late, beside) = tokio::join!(client.stall(request), client.get("/beside"));
        assert_eq!((late.status().as_u16(), beside.status().as_u16()), (408, 200));
        assert!(String::from_utf8_lossy(late.body()).contains("\"request_timeout\""));
        assert_eq!(client.get("/next").await.status(), 200);
    }
    // Nothing was claimed: the same key executes now.
    assert!(!client.post("/slow", "k", "whole").await.headers().contains_key(REPLAYED));
    assert_eq!((upstream.count_of("/slow"), upstream.count_of("/next")), (1, 2));
}
