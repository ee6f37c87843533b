//! What reaches the upstream of a message: what is meant for it, framed once.

use crate::support::{Framing, Gateway, Upstream, put, with_body};

#[test]
fn connection_options_are_removed_but_contract_headers_stay() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let fields = "Connection: close, X-Drop, Idempotency-Key, Content-Length, Authorization, \
                  Content-Type, Host, X-Forwarded-For\r\nConnection: x-second\r\nX-Drop: 1\r\n\
                  X-Second: 2\r\nX-Kept: 3\r\nKeep-Alive: 5\r\nTE: trailers\r\n\
                  Proxy-Connection: close\r\nProxy-Authorization: p\r\nAuthorization: secret\r\n\
                  Content-Type: text/plain\r\nIdempotency-Key: k\r\nIdempotency-Fence: 99\r\n";
    let bytes = with_body("PUT", "/a", fields, "hello");
    let mut client = gateway.connect();
    assert_eq!(client.ask(&bytes).status, 200);
    client.assert_ended();
    let seen = &upstream.seen()[0];
    let gone = ["connection", "x-drop", "x-second", "keep-alive", "te", "proxy-connection"];
    for name in gone.into_iter().chain(["proxy-authorization", "transfer-encoding"]) {
        assert_eq!(seen.header(name), None, "{name}");
    }
    let kept = [
        ("x-kept", "3"),
        ("authorization", "secret"),
        ("content-type", "text/plain"),
        ("idempotency-key", "k"),
        ("idempotency-fence", "1"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "a"),
    ];
    for (name, value) in kept {
        assert_eq!(seen.fields.all(name), [value], "{name}");
    }
    assert_eq!((seen.framing, seen.text().as_str()), (Framing::Length(5), "hello"));
    // The key counts, whatever `Connection` says: this is a retry.
    assert!(gateway.ask(&bytes).is_replay());
}

#[test]
fn a_body_is_framed_as_it_came_and_once() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let mut client = gateway.connect();
    client.ask(put("/length", "hello"));
    client.ask("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
    let chunks = "Host: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n";
    client.ask(format!("PUT /chunks HTTP/1.1\r\n{chunks}"));
    client.ask(format!("GET /chunks HTTP/1.1\r\n{chunks}"));
    // Read before it was passed on, so its length is known.
    client.ask(format!("POST /read HTTP/1.1\r\nIdempotency-Key: k\r\n{chunks}"));
    let seen = upstream.seen();
    let mut seen: Vec<_> =
        seen.iter().map(|seen| (seen.target.as_str(), seen.framing, seen.text())).collect();
    seen.sort_by_key(|(target, ..)| *target);
    let hello = "hello".to_owned();
    let expected = [
        ("/chunks", Framing::Chunked, hello.clone()),
        ("/chunks", Framing::Chunked, hello.clone()),
        ("/length", Framing::Length(5), hello.clone()),
        ("/none", Framing::None, String::new()),
        ("/read", Framing::Length(5), hello),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn trailers_never_become_fields() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    for fields in ["", "Idempotency-Key: k\r\n"] {
        let reply = gateway.ask(format!(
            "PUT /a HTTP/1.1\r\nHost: a\r\n{fields}Transfer-Encoding: chunked\r\n\
             Trailer: x-sum, idempotency-key, content-length\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\n\
             Idempotency-Key: trailer\r\nContent-Length: 99\r\nIdempotency-Fence: 99\r\n\r\n"
        ));
        assert_eq!(reply.status, 200);
    }
    for seen in upstream.seen() {
        assert_eq!(seen.text(), "hello");
        assert_eq!(seen.header("x-sum"), None);
        assert_ne!(seen.header("content-length"), Some("99"));
        assert_ne!(seen.header("idempotency-key"), Some("trailer"));
        assert_ne!(seen.header("idempotency-fence"), Some("99"));
        for name in ["content-length", "transfer-encoding", "idempotency-key"] {
            assert_eq!(seen.trailers.get(name), None, "{name}");
        }
    }
}
