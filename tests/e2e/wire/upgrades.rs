//! WebSocket goes through where nothing is protected; nothing else becomes a tunnel.

use std::io;
use std::net::TcpStream;
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use rustix::process::Signal;

use crate::support::{
    After, Client, Gateway, Line, Seen, Upstream, Watch, answer, eventually, get,
};

const HANDSHAKE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
const TABLES: &str = "[[route]]\nmatch = \"GET /guarded\"\nkey = \"required\"\n";

/// Accepts each upgrade, and then echoes everything until `bye`.
fn agree(seen: &Seen, line: &mut Line) -> io::Result<After> {
    if seen.header("upgrade").is_none() {
        return seen.echo(line);
    }
    line.send(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
          Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
    )?;
    loop {
        let word = line.exactly(5)?;
        line.send(&word)?;
        if word == b"bye!!" {
            return Ok(After::Close);
        }
    }
}

fn ask(method: &str, target: &str, fields: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn opened(gateway: &Gateway) -> Client {
    let mut client = gateway.connect();
    let reply = client.ask(ask("GET", "/ws", HANDSHAKE));
    assert_eq!(reply.status, 101);
    assert_eq!(reply.header("upgrade"), Some("websocket"));
    assert_eq!(reply.header("connection"), Some("upgrade"));
    assert_eq!(reply.header("sec-websocket-accept"), Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    client
}

/// True if the tunnel still works.
fn assert_open(client: &mut Client) {
    client.send("hello");
    assert_eq!(client.line().exactly(5).unwrap(), b"hello");
}

/// Stops the gateway, and waits until it refuses connections.
fn drain(gateway: &Gateway) {
    gateway.signal(Signal::TERM);
    eventually("it listens no more", || {
        TcpStream::connect(gateway.listen()).is_err().then_some(())
    });
}

#[test]
fn bytes_go_both_ways_until_the_upstream_closes() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, TABLES);
    let mut client = opened(&gateway);
    for word in ["hello", "\0\x01\x02\r\n", "GET /", "bye!!"] {
        client.send(word);
        assert_eq!(client.line().exactly(5).unwrap(), word.as_bytes());
    }
    client.assert_ended();
    assert_eq!(upstream.finished().len(), 1);
}

#[test]
fn a_disconnected_client_closes_the_tunnel() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, TABLES);
    drop(opened(&gateway));
    assert_eq!(upstream.finished().len(), 1);
    opened(&gateway).reset();
    assert_eq!(upstream.finished().len(), 2);
}

#[test]
fn bytes_sent_before_the_upgrade_is_accepted_are_forwarded() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, TABLES);
    let mut client = gateway.connect();
    client.send(ask("GET", "/ws", HANDSHAKE) + "early");
    assert_eq!(client.reply().status, 101);
    assert_eq!(client.line().exactly(5).unwrap(), b"early");
}

#[test]
fn a_refusal_of_the_upstream_comes_through_and_the_connection_goes_on() {
    for status in ["200 OK", "400 Bad Request", "426 Upgrade Required"] {
        let upstream = Upstream::new(move |seen, line| {
            if seen.target == "/ws" {
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\nno");
                line.send(head.as_bytes())?;
            } else {
                line.send(&answer(seen, "next"))?;
            }
            Ok(After::Keep)
        });
        let gateway = Gateway::start(&upstream, TABLES);
        let mut client = gateway.connect();
        let reply = client.ask(ask("GET", "/ws", HANDSHAKE));
        assert_eq!(format!("{} {}", reply.status, reply.text()), format!("{} no", &status[..3]));
        assert_eq!(client.ask(get("/next")).text(), "next");
    }
}

#[test]
fn protected_and_non_websocket_requests_never_become_tunnels() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, TABLES);
    let key = "Idempotency-Key: k\r\n";
    let h2c = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
    let other = "Connection: Upgrade\r\nUpgrade: websocket, h2c\r\n";
    let twice = "Connection: Upgrade\r\nUpgrade: websocket\r\nUpgrade: h2c\r\n";
    let asked = [
        ask("POST", "/1", &format!("{key}{HANDSHAKE}Content-Length: 0\r\n")),
        ask("PUT", "/2", &format!("{key}{HANDSHAKE}")),
        ask("PUT", "/3", HANDSHAKE),
        ask("GET", "/guarded", &format!("{key}{HANDSHAKE}")),
        ask("GET", "/5", h2c),
        ask("GET", "/6", other),
        ask("GET", "/7", twice),
        ask("GET", "/8", "Upgrade: websocket\r\n"),
        ask("GET", "/9", HANDSHAKE).replace("HTTP/1.1", "HTTP/1.0"),
    ];
    for bytes in &asked {
        let reply = gateway.ask(bytes);
        assert_eq!(reply.status, 200, "{bytes}");
    }
    let seen = upstream.seen();
    assert_eq!(seen.len(), asked.len());
    for seen in seen {
        for name in ["upgrade", "connection", "http2-settings"] {
            assert_eq!(seen.header(name), None, "{name} in {seen:?}");
        }
    }
}

#[test]
fn a_tunnel_counts_as_a_connection_until_it_is_closed() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, "[limits]\nmax_connections = 1\n");
    let mut tunnel = opened(&gateway);
    for _ in 0..10 {
        assert_open(&mut tunnel);
        let reply = gateway.connect().reply();
        assert_eq!((reply.status, reply.code().as_deref()), (503, Some("too_busy")));
    }
    drop(tunnel);
    assert_let_in(&gateway);
}

/// There is a place for another client.
fn assert_let_in(gateway: &Gateway) {
    let let_in = eventually("there is a place again", || {
        let mut client = gateway.connect();
        // Refused, it may be gone before the request is out.
        client.try_send(get("/next")).ok()?;
        let reply = client.final_reply(false).ok()??;
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(let_in.text(), "GET /next 0");
}

/// The upstream agrees, and the client is gone.
#[test]
fn a_tunnel_that_never_begins_gives_its_place_back() {
    let (go_on, wait) = mpsc::channel::<()>();
    let wait = Mutex::new(wait);
    let upstream = Upstream::new(move |seen, line| {
        if seen.header("upgrade").is_some() {
            wait.lock().unwrap().recv().unwrap();
        }
        agree(seen, line)
    });
    let gateway = Gateway::start(&upstream, "[limits]\nmax_connections = 1\n");
    let mut gone = gateway.connect();
    // With a byte to come after it: then hyper does not notice that the client leaves.
    gone.send(ask("GET", "/ws", HANDSHAKE) + "x");
    eventually("the upstream was asked", || (!upstream.seen().is_empty()).then_some(()));
    gone.reset();
    go_on.send(()).unwrap();
    assert_let_in(&gateway);
}

#[test]
fn a_tunnel_stays_while_bytes_move_and_is_closed_when_none_do() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, "[limits]\nidle_timeout = \"700ms\"\n");
    let mut tunnel = opened(&gateway);
    let watch = Watch::start();
    eventually("it outlives the limit", || {
        assert_open(&mut tunnel);
        (watch.elapsed() > Duration::from_millis(1600)).then_some(())
    });
    tunnel.assert_cut();
    assert_eq!(upstream.finished().len(), 1);
}

#[test]
fn a_gateway_that_stops_waits_until_a_tunnel_is_closed() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, "[limits]\nshutdown_timeout = \"1h\"\n");
    let mut tunnel = opened(&gateway);
    drain(&gateway);
    assert_open(&mut tunnel);
    drop(tunnel);
    assert_eq!(gateway.ended().code(), Some(0));
}

#[test]
fn a_gateway_that_stops_waits_for_a_tunnel_no_longer_than_it_may() {
    let upstream = Upstream::new(agree);
    let gateway = Gateway::start(&upstream, "[limits]\nshutdown_timeout = \"700ms\"\n");
    let mut tunnel = opened(&gateway);
    let watch = Watch::start();
    drain(&gateway);
    tunnel.assert_cut();
    assert!(watch.elapsed() >= Duration::from_millis(650), "{:?}", watch.elapsed());
    assert_eq!(gateway.ended().code(), Some(1), "it says that something was cut off");
    assert_eq!(upstream.finished().len(), 1);
}
