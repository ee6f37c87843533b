//! Slow clients are disconnected, and do not delay others.

use std::time::Duration;

use crate::support::{After, Client, Gateway, Upstream, Watch, answer, eventually, get, post};

const TABLES: &str = r#"
[limits]
header_timeout = "400ms"
idle_timeout = "1500ms"
body_idle_timeout = "500ms"

[policy]
request_body_timeout = "600ms"
"#;

/// Sends a byte now and then until the other side has closed; returns what it said before.
fn trickle(client: &mut Client, piece: &[u8]) -> Vec<u8> {
    client.set_timeout(Duration::from_millis(40));
    eventually("a client that trickles is cut", || {
        if client.try_send(piece).is_err() {
            return Some(());
        }
        match client.line().fill() {
            Ok(true) => None,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            Ok(false) | Err(_) => Some(()),
        }
    });
    // A reset may have taken it.
    client.line().rest().unwrap_or_default()
}

#[test]
fn headers_that_trickle_are_cut_before_a_connection_that_only_idles() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut idle = gateway.connect();
    assert_eq!(idle.ask(get("/first")).status, 200);
    let mut slow = gateway.connect();
    slow.send("GET /slow HTTP/1.1\r\nX: ");
    let watch = Watch::start();
    trickle(&mut slow, b"a");
    assert!(watch.elapsed() >= Duration::from_millis(350), "{:?}", watch.elapsed());
    // The one that idles is still welcome; then it is its turn.
    assert_eq!(idle.ask(get("/second")).status, 200);
    idle.assert_ended();
    assert_eq!(upstream.count_of("/slow"), 0);
}

#[test]
fn headers_of_a_later_request_that_trickle_are_cut_too() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut slow = gateway.connect();
    assert_eq!(slow.ask(get("/first")).status, 200);
    slow.send("GET /slow HTTP/1.1\r\n");
    trickle(&mut slow, b"X: 1\r\n");
    assert_eq!(upstream.count_of("/slow"), 0);
}

#[test]
fn a_connection_without_any_byte_is_closed() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut silent = gateway.connect();
    silent.assert_ended();
}

#[test]
fn the_body_of_a_protected_request_has_its_time_as_a_whole() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut slow = gateway.connect();
    slow.send(
        "POST /slow HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 100000\r\n\r\n",
    );
    let said = String::from_utf8(trickle(&mut slow, b"a")).unwrap();
    assert!(said.starts_with("HTTP/1.1 408 "), "{said}");
    assert!(said.contains("\"request_timeout\""), "{said}");
    assert!(upstream.seen().is_empty());
    // Nothing was claimed: the same key executes now.
    assert!(!gateway.ask(post("/slow", "k", "whole")).is_replay());
}

#[test]
fn a_body_that_stops_on_its_way_through_is_cut_on_both_sides() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut slow = gateway.connect();
    slow.send("PUT /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nsome");
    eventually("the upstream has the beginning", || {
        let connections = upstream.connections();
        connections.iter().any(|it| it.bytes.ends_with(b"some")).then_some(())
    });
    let reply = slow.reply();
    assert_eq!((reply.status, reply.code().as_deref()), (408, Some("request_timeout")));
    assert!(reply.closes(), "{reply:?}");
    slow.assert_cut();
    assert!(upstream.finished().is_empty(), "half a request counts as one");
    assert_eq!(gateway.ask(get("/next")).status, 200);
}

#[test]
fn a_client_that_never_reads_is_cut_and_its_upstream_released() {
    let upstream = Upstream::new(|seen, line| {
        if seen.target != "/big" {
            line.send(&answer(seen, "small"))?;
            return Ok(After::Keep);
        }
        line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1073741824\r\n\r\n")?;
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..1024 {
            line.send(&piece)?;
        }
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, TABLES);
    let mut deaf = gateway.connect();
    deaf.send(get("/big"));
    upstream.wait_for("/big", 1);
    // It ends because the gateway gives up: the client is still there, and reads nothing.
    assert_eq!(upstream.finished().len(), 1);
    assert_eq!(gateway.ask(get("/small")).text(), "small");
    drop(deaf);
}

#[test]
fn a_client_that_reads_slowly_is_not_idle() {
    const LEN: usize = 12 << 20;
    let upstream = Upstream::new(|seen, line| {
        line.send(&answer(seen, &"x".repeat(LEN)))?;
        Ok(After::Keep)
    });
    let limits = "[limits]\nidle_timeout = \"300ms\"\nbody_idle_timeout = \"2s\"\n";
    let gateway = Gateway::start(&upstream, limits);
    // The gateway has the whole answer at once, and the systems between cannot hold it.
    for is_replay in [false, true] {
        let mut client = Client::slow(gateway.listen(), Duration::from_micros(1500));
        let watch = Watch::start();
        let reply = client.ask(post("/big", "k", ""));
        assert_eq!((reply.is_replay(), reply.len), (is_replay, LEN as u64));
        assert!(watch.elapsed() > Duration::from_millis(900), "{:?}", watch.elapsed());
    }
    assert_eq!(upstream.count_of("/big"), 1);
}

#[test]
fn five_hundred_slow_clients_do_not_keep_a_good_one_waiting() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    let start = |n: usize| match n % 3 {
        0 => "GET /slow HTTP/1.1\r\nHo".to_owned(),
        1 => "POST /slow HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nContent-Length: 9\r\n\r\nab"
            .into(),
        _ => "G".into(),
    };
    let mut slow: Vec<Client> = (0..500).map(|_| gateway.connect()).collect();
    for (n, client) in slow.iter_mut().enumerate() {
        client.send(start(n));
    }
    let watch = Watch::start();
    let mut good = gateway.connect();
    for n in 0..50 {
        assert_eq!(good.ask(get(&format!("/good/{n}"))).status, 200);
        assert_eq!(gateway.ask(post("/good", &format!("g{n}"), "")).status, 200);
    }
    assert!(watch.elapsed() < Duration::from_secs(8), "{:?}", watch.elapsed());
    // They all still hung there.
    for client in &mut slow {
        client.set_timeout(Duration::from_millis(1));
        let error = client.line().fill().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock);
    }
    assert_eq!(upstream.count_of("/slow"), 0);
}
