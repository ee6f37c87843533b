//! Large bodies pass through without filling the memory. Trap 25, I10.

use crate::support::{Call, Gateway, Reply, Setup, Upstream};

const LARGE: u64 = 100 << 20;
/// What the process may grow by.
const ROOM_KIB: u64 = 24 << 10;

/// The most memory that the process has ever had, in KiB.
fn peak_kib(gateway: &Gateway) -> u64 {
    gateway.memory_kib("VmHWM")
}

#[test]
fn a_large_reply_is_passed_on_in_pieces() {
    let upstream = Upstream::with(|_| Reply::large(200, LARGE));
    let gateway = Setup::before(&upstream).start();
    let before = peak_kib(&gateway);
    let answer = Call::new("GET", "/export").send(&gateway);
    assert_eq!((answer.status, answer.body.len() as u64), (200, LARGE));
    assert!(answer.body.iter().all(|byte| *byte == b'x'));
    let grown = peak_kib(&gateway) - before;
    assert!(grown < ROOM_KIB, "it grew by {grown} KiB");
}

/// Also under protection: what is over `max_reply_body` streams.
#[test]
fn a_large_reply_under_protection_is_passed_on_in_pieces() {
    let upstream = Upstream::with(|_| Reply::large(200, LARGE));
    let gateway = Setup::before(&upstream).policy("max_reply_body = \"1MiB\"").start();
    let before = peak_kib(&gateway);
    let answer = Call::charge("k").send(&gateway);
    assert_eq!((answer.status, answer.body.len() as u64), (200, LARGE));
    let grown = peak_kib(&gateway) - before;
    assert!(grown < ROOM_KIB, "it grew by {grown} KiB");
}

#[test]
fn a_large_request_without_protection_is_passed_on_in_pieces() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).start();
    let before = peak_kib(&gateway);
    let length = usize::try_from(LARGE / 2).expect("a size");
    let answer = Call::new("PUT", "/import").body(&vec![b'x'; length]).send(&gateway);
    assert_eq!(answer.status, 201);
    assert_eq!(upstream.seen()[0].len, length as u64);
    let grown = peak_kib(&gateway) - before;
    assert!(grown < ROOM_KIB, "it grew by {grown} KiB");
}
