//! `upstream_timeout`: what counts is the time that the upstream takes, not that of a client.

use std::net::TcpListener;
use std::time::Duration;

use crate::support::{
    After, Answer, Client, Gate, Gateway, Upstream, Watch, answer, eventually, post,
};

const TABLES: &str = "[policy]\nupstream_timeout = \"600ms\"\nmax_reply_body = \"1KiB\"\n";
/// Longer than that.
const LONG: Duration = Duration::from_millis(1400);
const STEPS: u32 = 20;

/// Does something in steps that take `LONG` together.
fn slowly<E>(mut step: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    let watch = Watch::start();
    (1..=STEPS).try_for_each(|n| {
        watch.reach(LONG * n / STEPS);
        step()
    })
}

fn upload(client: &mut Client, target: &str) {
    client.send(format!("PUT {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {STEPS}\r\n\r\n"));
    slowly(|| client.try_send("x")).unwrap();
}

#[test]
fn a_reply_that_is_passed_on_may_take_longer_than_the_upstream_to_begin_it() {
    const PIECE: usize = 4 << 10;
    const LEN: usize = PIECE * (STEPS as usize + 1);
    let upstream = Upstream::new(|_, line| {
        let head = format!("HTTP/1.1 201 Created\r\nContent-Length: {LEN}\r\n\r\n");
        line.send(head.as_bytes())?;
        // More than is kept: from here on it is passed on.
        line.send(&[b'x'; PIECE])?;
        slowly(|| line.send(&[b'x'; PIECE]))?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, TABLES);
    let ask = || gateway.ask(post("/large", "k", "hello"));
    let first = ask();
    assert_eq!((first.status, first.len, first.is_replay()), (201, LEN as u64, false));
    let retry: Answer = ask();
    assert_eq!((retry.status, retry.len, retry.is_replay()), (201, 0, true));
    assert_eq!(retry.header("x-idempotency-body"), Some("omitted"));
    assert_eq!(upstream.count_of("/large"), 1);
}

#[test]
fn a_client_that_uploads_slowly_does_not_use_up_the_upstreams_time() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, TABLES);
    let mut client = gateway.connect();
    upload(&mut client, "/slow");
    let reply = client.reply();
    assert_eq!((reply.status, reply.text()), (200, format!("PUT /slow {STEPS}")));
}

#[test]
fn the_upstreams_time_begins_with_the_end_of_the_upload() {
    let gate = Gate::default();
    let held = gate.clone();
    let upstream = Upstream::new(move |seen, line| {
        held.pass();
        line.send(&answer(seen, "late"))?;
        Ok(After::Keep)
    });
    let gateway = Gateway::start(&upstream, TABLES);
    let mut client = gateway.connect();
    upload(&mut client, "/held");
    let watch = Watch::start();
    let reply = client.reply();
    assert_eq!((reply.status, reply.code().as_deref()), (504, Some("upstream_timeout")));
    assert!(watch.elapsed() >= Duration::from_millis(550), "{:?}", watch.elapsed());
    gate.open();
    eventually("it had come whole", || (upstream.count_of("/held") == 1).then_some(()));
}

#[test]
fn an_upstream_that_stops_reading_an_upload_is_too_slow() {
    // The system accepts, and buffers what it can hold; no process reads it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let gateway = Gateway::start_at(&format!("http://{}", listener.local_addr().unwrap()), TABLES);
    let mut client = gateway.connect();
    client.send("PUT /large HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut sender = client.twin();
    let reply = std::thread::scope(|scope| {
        scope.spawn(move || {
            let chunk = [b"100000\r\n".as_slice(), &vec![b'x'; 1 << 20], b"\r\n"].concat();
            // Cut at some time, or through.
            let _ = (0..64).try_for_each(|_| sender.try_send(&chunk));
        });
        client.reply()
    });
    assert_eq!((reply.status, reply.code().as_deref()), (504, Some("upstream_timeout")));
    assert!(reply.closes());
}
