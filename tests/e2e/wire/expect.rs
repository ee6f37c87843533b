//! `Expect: 100-continue`: permission is given when the body is wanted, and only then.

use crate::support::{Gateway, Upstream, get, post};

const EXPECT: &str = "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n";
const TABLES: &str = "[policy]\nmax_request_body = \"1KiB\"\n";

#[test]
fn permission_comes_first_and_the_answer_after_the_body() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut client = gateway.connect();
    let heads = [
        "POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: e\r\n",
        "PUT /b HTTP/1.1\r\nHost: a\r\n",
        "PUT /c HTTP/1.1\r\nHost: a\r\nIdempotency-Key: c\r\n",
    ];
    for head in heads {
        assert_eq!(client.ask(format!("{head}{EXPECT}")).status, 100, "{head}");
        assert_eq!(client.ask("hello").status, 200, "{head}");
    }
    let targets = upstream.seen();
    assert_eq!(targets.len(), 3);
    assert!(targets.iter().all(|seen| seen.text() == "hello" && seen.header("expect").is_none()));
}

#[test]
fn a_replay_needs_the_body_too() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    assert_eq!(gateway.ask(post("/a", "k", "hello")).status, 200);
    let mut client = gateway.connect();
    let head = format!("POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\n{EXPECT}");
    assert_eq!(client.ask(head).status, 100);
    assert!(client.ask("hello").is_replay());
    assert_eq!(client.ask(get("/next")).status, 200);
    assert_eq!(upstream.count_of("/a"), 1);
}

#[test]
fn a_refused_request_never_gets_100_continue() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let large = EXPECT.replace(": 5\r\n", ": 5000\r\n");
    let refused = [
        (format!("POST /a HTTP/1.1\r\nHost: a\r\n{EXPECT}"), 400),
        (format!("POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a b\r\n{EXPECT}"), 400),
        (format!("POST /a HTTP/1.1\r\nHost: a\r\nIdempotency-Key: a\r\n{large}"), 413),
        (format!("POST /a HTTP/1.1\r\nIdempotency-Key: a\r\n{EXPECT}"), 400),
    ];
    for (head, status) in refused {
        let mut client = gateway.connect();
        // The first answer is the final one.
        let reply = client.ask(&head);
        assert_eq!(reply.status, status, "{head}");
        assert!(reply.closes(), "{head}");
        client.assert_ended();
    }
    assert!(upstream.seen().is_empty());
}

#[test]
fn an_unreachable_upstream_is_reported_without_100_continue() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gateway = Gateway::start_at(&format!("http://{gone}"), TABLES);
    let mut client = gateway.connect();
    let reply = client.ask(format!("PUT /a HTTP/1.1\r\nHost: a\r\n{EXPECT}"));
    assert_eq!((reply.status, reply.code().as_deref()), (502, Some("upstream_unreachable")));
}
