//! What an upstream may do to its connections, and what clients must not notice of it.

use crate::support::{
    After, Framing, Gate, Gateway, Seen, Upstream, eventually, get, post, wait_until_closed,
};

/// Answers every request with these bytes.
fn saying(bytes: &'static [u8], after: After) -> Upstream {
    Upstream::new(move |_, line| {
        line.send(bytes)?;
        Ok(after)
    })
}

#[test]
fn idle_upstream_connections_that_close_cause_no_failure() {
    let upstream = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", After::Close);
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for n in 0..60 {
        let bytes = if n % 2 == 0 { get("/a") } else { post("/a", &format!("k{n}"), "hello") };
        let reply = client.ask(&bytes);
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "request {n}");
        wait_until_closed(&upstream);
    }
    assert_eq!(upstream.count_of("/a"), 60);
}

/// Else the first answer would end the connection, and its replay would not.
#[test]
fn the_version_that_the_upstream_speaks_is_not_passed_on() {
    let upstream = saying(b"HTTP/1.0 201 Created\r\nContent-Length: 2\r\n\r\nok", After::Close);
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for request in [get("/a"), post("/a", "k", "hello"), post("/a", "k", "hello")] {
        client.send(&request);
        let head = client.head();
        assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
        assert_eq!(client.line().exactly(2).unwrap(), b"ok");
    }
    assert_eq!(upstream.count_of("/a"), 2);
}

#[test]
fn bytes_after_a_reply_are_never_the_next_reply() {
    const EVIL: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    for more in
        [EVIL, b"GARBAGE", b"\0", b"\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"]
    {
        let upstream = Upstream::new(move |seen, line| {
            line.send(&[&crate::support::answer(seen, &seen.summary()), more].concat())?;
            Ok(After::Keep)
        });
        let gateway = Gateway::start(&upstream, "[policy]\nttl = \"1h\"\n");
        let mut client = gateway.connect();
        for n in 0..20 {
            let reply = client.ask(get(&format!("/get/{n}")));
            assert_eq!((reply.status, reply.text()), (200, format!("GET /get/{n} 0")));
            let reply = client.ask(post(&format!("/post/{n}"), "k", "hello"));
            assert_eq!((reply.status, reply.text()), (200, format!("POST /post/{n} 5")));
        }
    }
}

#[test]
fn unsolicited_bytes_on_an_idle_connection_are_never_a_reply() {
    let (asked, sent) = (Gate::default(), Gate::default());
    let (wait, tell) = (asked.clone(), sent.clone());
    let upstream = Upstream::new(move |seen, line| {
        line.send(&crate::support::answer(seen, &seen.summary()))?;
        if seen.target == "/first" {
            wait.pass();
            line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")?;
            tell.open();
        }
        Ok(After::Keep)
    });
    // One thread, so that the next request finds that very connection.
    let gateway = Gateway::start_top(&upstream, "workers = 1\n", "");
    let mut client = gateway.connect();
    assert_eq!(client.ask(get("/first")).text(), "GET /first 0");
    asked.open();
    sent.pass();
    assert_eq!(client.ask(get("/second")).text(), "GET /second 0");
    assert_eq!(client.ask(post("/third", "k", "")).text(), "POST /third 0");
}

#[test]
fn interim_replies_come_before_the_final_one() {
    let upstream = saying(
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n\
          HTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        After::Keep,
    );
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for bytes in [get("/a"), post("/b", "k", "hello"), post("/b", "k", "hello"), get("/c")] {
        client.send(&bytes);
        let reply = client.final_reply(false).unwrap().unwrap();
        assert_eq!((reply.status, reply.text().as_str()), (200, "ok"), "{bytes}");
    }
    assert_eq!(upstream.count_of("/b"), 1);
}

#[test]
fn a_reply_that_is_none_is_a_502() {
    let replies: [&[u8]; 12] = [
        b"garbage\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"HTTP/3.0 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nbad name: 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: a\0b\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"HTTP/1.1 200 O",
        b"",
    ];
    for bytes in replies {
        let upstream = saying(bytes, After::Close);
        let gateway = Gateway::start(&upstream, "");
        for request in [get("/a"), post("/b", "k", "hello")] {
            let reply = gateway.ask(&request);
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(reply.status, 502, "{text:?}: {}", reply.text());
            assert_eq!(reply.code().as_deref(), Some("upstream_unreachable"), "{text:?}");
        }
        // It was sent once, and may be tried again.
        assert_eq!(upstream.count_of("/b"), 1);
    }
}

#[test]
fn chunks_count_where_a_length_is_given_too() {
    let upstream = saying(
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n\
          5\r\nhello\r\n0\r\n\r\n",
        After::Keep,
    );
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for bytes in [get("/a"), post("/b", "k", ""), post("/b", "k", ""), get("/c")] {
        let reply = client.ask(&bytes);
        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"), "{bytes}");
    }
}

#[test]
fn a_reply_without_a_length_ends_with_its_connection_and_is_kept_whole() {
    let upstream = saying(b"HTTP/1.1 201 Created\r\nLocation: /1\r\n\r\nall of it", After::Close);
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    let first = client.ask(post("/a", "k", ""));
    let replay = client.ask(post("/a", "k", ""));
    assert!(!first.is_replay() && replay.is_replay());
    for reply in [&first, &replay] {
        assert_eq!((reply.status, reply.text().as_str()), (201, "all of it"));
        assert_eq!(reply.framing, Framing::Length(9));
        assert_eq!(reply.header("location"), Some("/1"));
    }
    let passed = client.ask(get("/b"));
    assert_eq!((passed.text().as_str(), passed.framing), ("all of it", Framing::Chunked));
    assert_eq!(upstream.count_of("/a"), 1);
}

#[test]
fn a_reply_that_breaks_off_never_looks_whole() {
    for bytes in [
        &b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello"[..],
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nx\r\n",
    ] {
        let upstream = saying(bytes, After::Close);
        let gateway = Gateway::start(&upstream, "");
        let mut client = gateway.connect();
        client.send(get("/a"));
        let passed = client.final_reply(false).unwrap();
        assert!(passed.is_none_or(|reply| reply.status == 502));
        let kept = gateway.ask(post("/b", "k", ""));
        assert_eq!((kept.status, kept.code().as_deref()), (502, Some("upstream_unreachable")));
    }
}

#[test]
fn replies_without_a_body_are_framed_as_such() {
    let upstream = Upstream::new(|seen, line| {
        line.send(match (seen.method.as_str(), seen.target.as_str()) {
            ("HEAD", _) => b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            (_, "/204") => b"HTTP/1.1 204 No Content\r\n\r\n",
            (_, "/304") => {
                b"HTTP/1.1 304 Not Modified\r\nContent-Length: 1000\r\nETag: \"a\"\r\n\r\n"
            }
            _ => b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        })?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for _ in 0..2 {
        let head = client.ask("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!((head.status, head.header("content-length")), (200, Some("1000")));
        let unchanged = client.ask(get("/304"));
        assert_eq!((unchanged.status, unchanged.header("etag")), (304, Some("\"a\"")));
        for bytes in [get("/204"), post("/204", "k", "")] {
            let nothing = client.ask(bytes);
            assert_eq!((nothing.status, nothing.header("content-length")), (204, None));
            assert_eq!(nothing.header("transfer-encoding"), None);
        }
        let empty = client.ask(post("/200", "k", ""));
        assert_eq!((empty.status, empty.framing), (200, Framing::Length(0)));
    }
    assert_eq!((upstream.count_of("/204"), upstream.count_of("/200")), (3, 1));
}

#[test]
fn a_reply_with_trailers_is_forwarded() {
    let upstream = saying(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n\
          5\r\nhello\r\n0\r\nX-Sum: 1\r\nContent-Length: 99\r\n\r\n",
        After::Keep,
    );
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for bytes in [get("/a"), post("/b", "k", ""), post("/b", "k", ""), get("/c")] {
        let reply = client.ask(&bytes);
        assert_eq!((reply.status, reply.text().as_str()), (200, "hello"), "{bytes}");
        assert_ne!(reply.header("content-length"), Some("99"), "{bytes}");
        assert_eq!(reply.trailers.get("content-length"), None, "{bytes}");
    }
    assert_eq!(upstream.count_of("/b"), 1);
}

#[test]
fn a_reply_may_have_many_fields_and_keeps_them_all() {
    let fields: Vec<_> = (0..150).map(|n| format!("X-Field-{n}: value {n}\r\n")).collect();
    let fields = fields.concat();
    let upstream = Upstream::new(move |_, line| {
        let head = format!("HTTP/1.1 201 Created\r\n{fields}Content-Length: 2\r\n\r\nok");
        line.send(head.as_bytes())?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    for bytes in [get("/a"), post("/b", "k", ""), post("/b", "k", "")] {
        let reply = client.ask(&bytes);
        assert_eq!((reply.status, reply.text().as_str()), (201, "ok"), "{bytes}");
        for n in 0..150 {
            let value = format!("value {n}");
            assert_eq!(reply.header(&format!("x-field-{n}")), Some(value.as_str()), "{bytes}");
        }
    }
    assert_eq!(upstream.count_of("/b"), 1);
}

#[test]
fn an_unrequested_upgrade_is_a_502_and_no_tunnel() {
    const SWITCH: &[u8] = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n\
        Upgrade: websocket\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil";
    let upstream = Upstream::new(|seen, line| {
        let is_next = seen.target == "/next";
        line.send(if is_next { b"HTTP/1.1 204 No Content\r\n\r\n" } else { SWITCH })?;
        // What came through a tunnel would be here as a request.
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, "[policy]\non_unknown = \"hold\"\n");
    let mut client = gateway.connect();
    for bytes in [get("/a"), post("/b", "k", "hello")] {
        let reply = client.ask(&bytes);
        assert_eq!((reply.status, reply.code().as_deref()), (502, Some("upstream_unreachable")));
        assert_eq!(client.ask(get("/next")).status, 204, "after {bytes}");
    }
    let retry = client.ask(post("/b", "k", "hello"));
    assert_eq!((retry.status, retry.code().as_deref()), (409, Some("outcome_unknown")));
    eventually("connections that switched are closed", || {
        let connections = upstream.connections();
        let switched = |seen: &Seen| seen.target != "/next";
        let mut switched = connections.iter().filter(|it| it.requests.iter().any(switched));
        switched.all(|it| it.has_ended).then_some(())
    });
    assert_eq!(
        (upstream.count_of("/a"), upstream.count_of("/b"), upstream.count_of("/next")),
        (1, 1, 2)
    );
}

#[test]
fn a_reload_leaves_no_connection_from_before_in_use() {
    let upstream = saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", After::Keep);
    // One thread, so that requests share a connection.
    let top = "workers = 1\n[limits]\npool_idle_timeout = \"1h\"\n";
    let gateway = Gateway::start_top(&upstream, top, "");
    for bytes in [get("/before"), post("/before", "k", ""), get("/before")] {
        assert_eq!(gateway.ask(bytes).status, 200);
    }
    assert_eq!(upstream.connections().len(), 1);
    gateway.reload(|text| text + "[policy]\nreplay_headers = [\"X-Marked: anew\"]\n");
    eventually("the new configuration is in force", || {
        gateway.ask(post("/before", "k", "")).header("x-marked").map(|_| ())
    });
    for _ in 0..2 {
        assert_eq!(gateway.ask(get("/after")).status, 200);
    }
    let connections = upstream.connections();
    assert_eq!(connections.len(), 2);
    assert!(connections[0].requests.iter().all(|seen| seen.target == "/before"));
}
