//! Bodies of any size in bounded memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::support::{Gateway, Upstream, eventually, get};

const MIB: usize = 1 << 20;
/// How much memory one body may cost.
const GROWTH_KIB: u64 = 64 * 1024;

/// Watches the gateway's memory while `work` runs; returns the most it grew by.
fn growth<T>(gateway: &Gateway, work: impl FnOnce() -> T) -> (T, u64) {
    let before = gateway.resident_kib();
    let (most, done) = (AtomicU64::new(before), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            eventually("the work is done", || {
                most.fetch_max(gateway.resident_kib(), Ordering::Relaxed);
                done.load(Ordering::Relaxed).then_some(())
            });
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, most.load(Ordering::Relaxed).saturating_sub(before))
    })
}

#[test]
fn a_gibibyte_for_a_protected_route_is_refused_while_it_is_sent() {
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    assert_eq!(gateway.ask(get("/warm")).status, 200);
    let mut client = gateway.connect();
    client.send(
        "POST /upload HTTP/1.1\r\nHost: a\r\nIdempotency-Key: k\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    let mut sender = client.twin();
    let (reply, grown_kib) = growth(&gateway, || {
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let chunk = [b"100000\r\n".as_slice(), &vec![b'x'; MIB], b"\r\n"].concat();
                // Cut at some time, or through.
                let _ = (0..1024).try_for_each(|_| sender.try_send(&chunk));
            });
            client.reply()
        })
    });
    assert_eq!((reply.status, reply.code().as_deref()), (413, Some("request_body_too_large")));
    assert!(reply.closes());
    assert!(grown_kib <= GROWTH_KIB, "{grown_kib} KiB");
    assert_eq!(upstream.count_of("/upload"), 0);
    assert_eq!(gateway.ask(get("/next")).status, 200);
}

#[test]
fn a_large_body_goes_through_where_nothing_is_protected() {
    const LEN: usize = 256 * MIB;
    let upstream = Upstream::echo();
    let gateway = Gateway::start(&upstream, "");
    assert_eq!(gateway.ask(get("/warm")).status, 200);
    let mut client = gateway.connect();
    let piece = vec![b'x'; MIB];
    let (reply, grown_kib) = growth(&gateway, || {
        client.send(format!("PUT /up HTTP/1.1\r\nHost: a\r\nContent-Length: {LEN}\r\n\r\n"));
        for _ in 0..LEN / MIB {
            client.send(&piece);
        }
        client.reply()
    });
    assert_eq!((reply.status, reply.text()), (200, format!("PUT /up {LEN}")));
    assert!(grown_kib <= GROWTH_KIB, "{grown_kib} KiB");
    assert_eq!(client.ask(get("/next")).status, 200);
}

#[test]
fn a_large_reply_goes_through_where_nothing_is_protected() {
    const LEN: usize = 128 * MIB;
    let upstream = Upstream::new(|_, line| {
        line.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")?;
        let chunk = [b"100000\r\n".as_slice(), &vec![b'x'; MIB], b"\r\n"].concat();
        for _ in 0..LEN / MIB {
            line.send(&chunk)?;
        }
        line.send(b"0\r\n\r\n")?;
        Ok(crate::support::After::Keep)
    });
    let gateway = Gateway::start(&upstream, "");
    let (reply, grown_kib) = growth(&gateway, || gateway.ask(get("/down")));
    assert_eq!((reply.status, reply.len), (200, LEN as u64));
    assert!(grown_kib <= GROWTH_KIB, "{grown_kib} KiB");
}
