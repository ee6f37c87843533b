//! Each fault, against a server that sends back what it gets.
#![expect(clippy::disallowed_methods, reason = "the network takes real time")]

use std::io;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::{Direction, Proxy, Toxic};

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(30);

async fn echo() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                let _ = tokio::io::copy(&mut reads, &mut writes).await;
            });
        }
    });
    address
}

async fn setting() -> (Proxy, TcpStream) {
    let proxy = Proxy::start(1).await.expect("a proxy");
    proxy.lead_to(Some(echo().await));
    let mut stream = TcpStream::connect(proxy.address()).await.expect("a connection");
    assert_eq!(exchange(&mut stream, b"hello").await.expect("an echo"), b"hello");
    (proxy, stream)
}

async fn exchange(stream: &mut TcpStream, said: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(said).await?;
    let mut received = vec![0; said.len()];
    stream.read_exact(&mut received).await?;
    Ok(received)
}

/// Each fault, on an idle network and on one with traffic.
#[tokio::test]
async fn a_fault_strikes_where_something_is_said() {
    for toxic in [
        Toxic::Latency { delay: SHORT, jitter: SHORT },
        Toxic::Slow { bytes_per_second: 100 },
        Toxic::BlackHole { direction: Direction::Up },
        Toxic::BlackHole { direction: Direction::Down },
        Toxic::Cut { after_bytes: 1 },
        Toxic::Reset { after_bytes: 1 },
        Toxic::Late { wave: 1, is_queued: false },
    ] {
        let (proxy, mut stream) = setting().await;
        proxy.set(toxic);
        proxy.set(Toxic::None);
        assert_eq!(exchange(&mut stream, b"more").await.expect("an echo"), b"more");
        assert_eq!(proxy.struck(), 0, "{toxic:?}");
        proxy.set(toxic);
        stream.write_all(b"again").await.expect("sent");
        let strikes = async {
            while proxy.struck() == 0 {
                tokio::task::yield_now().await;
            }
        };
        timeout(LONG, strikes).await.expect("it strikes");
    }
    // Existing connections are hit at once.
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::HalfOpen);
    timeout(SHORT, exchange(&mut stream, b"lost")).await.expect_err("no echo");
    assert!(proxy.struck() > 0);
}

#[tokio::test]
async fn latency_delays_and_loses_nothing() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::Latency { delay: SHORT, jitter: SHORT });
    let began = Instant::now();
    assert_eq!(exchange(&mut stream, b"late").await.expect("an echo"), b"late");
    assert!(began.elapsed() >= SHORT * 2, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_slow_network_passes_a_few_bytes_at_a_time() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::Slow { bytes_per_second: 100 });
    let began = Instant::now();
    assert_eq!(exchange(&mut stream, b"ten letter").await.expect("an echo"), b"ten letter");
    assert!(began.elapsed() >= SHORT, "{:?}", began.elapsed());
}

/// The story: a piece that had come while the network was slow was passed on slowly to its end, for half a
/// minute after that was over.
#[tokio::test]
async fn a_network_is_slow_for_no_longer_than_its_fault() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::Slow { bytes_per_second: 20 });
    let (said, mut received) = (vec![7; 10_000], vec![0; 10_000]);
    stream.write_all(&said).await.expect("sent");
    stream.read_exact(&mut received[..1]).await.expect("it has begun");
    proxy.set(Toxic::None);
    // Slowly it would take eight minutes.
    timeout(LONG, stream.read_exact(&mut received[1..])).await.expect("in time").expect("an echo");
    assert_eq!(received, said);
}

#[tokio::test]
async fn a_black_hole_swallows_one_way_and_gives_back_when_it_is_over() {
    for direction in [Direction::Up, Direction::Down] {
        let (proxy, mut stream) = setting().await;
        proxy.set(Toxic::BlackHole { direction });
        stream.write_all(b"anyone?").await.expect("the write succeeds");
        let mut received = [0; 7];
        timeout(SHORT, stream.read_exact(&mut received)).await.expect_err("nothing comes");
        proxy.set(Toxic::None);
        timeout(LONG, stream.read_exact(&mut received)).await.expect("in time").expect("an echo");
        assert_eq!(&received, b"anyone?");
    }
}

#[tokio::test]
async fn a_cut_closes_the_connection_within_its_bytes() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::Cut { after_bytes: 4 });
    let received = timeout(LONG, exchange(&mut stream, b"more than four")).await.expect("in time");
    received.expect_err("it is cut");
}

#[tokio::test]
async fn a_reset_is_seen_as_one_in_mid_reply() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::Reset { after_bytes: 4 });
    let received = timeout(LONG, exchange(&mut stream, b"more than four")).await.expect("in time");
    assert_eq!(received.expect_err("a reset").kind(), io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_half_open_connection_is_silent_until_it_is_over() {
    let (proxy, mut stream) = setting().await;
    proxy.set(Toxic::HalfOpen);
    stream.write_all(b"anyone?").await.expect("the write succeeds");
    let mut received = [0; 1];
    timeout(SHORT, stream.read(&mut received)).await.expect_err("nothing comes");
    proxy.set(Toxic::None);
    let ended = timeout(LONG, stream.read(&mut received)).await.expect("in time");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

#[tokio::test]
async fn without_a_target_connections_are_closed_and_later_ones_are_led() {
    let proxy = Proxy::start(1).await.expect("a proxy");
    let mut stream = TcpStream::connect(proxy.address()).await.expect("a connection");
    let ended = timeout(LONG, exchange(&mut stream, b"hello")).await.expect("in time");
    ended.expect_err("no server");
    proxy.lead_to(Some(echo().await));
    let mut stream = TcpStream::connect(proxy.address()).await.expect("a connection");
    assert_eq!(exchange(&mut stream, b"hello").await.expect("an echo"), b"hello");
}

/// The bytes that a server received on each connection, once it is over.
async fn listening() -> (Proxy, tokio::sync::mpsc::UnboundedReceiver<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = Proxy::start(1).await.expect("a proxy");
    proxy.lead_to(Some(listener.local_addr().expect("an address")));
    let (send, received) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let send = send.clone();
            tokio::spawn(async move {
                let _ = stream.write_all(b"hello").await;
                let mut said = Vec::new();
                let _ = stream.read_to_end(&mut said).await;
                let _ = send.send(said);
            });
        }
    });
    (proxy, received)
}

/// A connection through which something was sent while it stood still.
async fn late(proxy: &Proxy, is_queued: bool) -> TcpStream {
    let mut stream = TcpStream::connect(proxy.address()).await.expect("a connection");
    // It is there before the fault.
    stream.read_exact(&mut [0; 5]).await.expect("a greeting");
    proxy.set(Toxic::Late { wave: 1, is_queued });
    stream.write_all(b"late").await.expect("sent");
    while proxy.struck() == 0 {
        tokio::task::yield_now().await;
    }
    stream
}

#[tokio::test]
async fn late_bytes_arrive_after_the_sender_has_closed() {
    let (proxy, mut received) = listening().await;
    drop(late(&proxy, false).await);
    // A new connection is as good as ever.
    let mut new = TcpStream::connect(proxy.address()).await.expect("a connection");
    new.write_all(b"new").await.expect("sent");
    drop(new);
    assert_eq!(timeout(LONG, received.recv()).await.expect("in time"), Some(b"new".to_vec()));
    // Until the next wave.
    let mut newer = TcpStream::connect(proxy.address()).await.expect("a connection");
    newer.read_exact(&mut [0; 5]).await.expect("a greeting");
    proxy.set(Toxic::Late { wave: 2, is_queued: false });
    let before = proxy.struck();
    newer.write_all(b"later").await.expect("sent");
    while proxy.struck() == before {
        tokio::task::yield_now().await;
    }
    drop(newer);
    proxy.set(Toxic::None);
    let mut said = [received.recv().await, received.recv().await];
    said.sort();
    assert_eq!(said, [Some(b"late".to_vec()), Some(b"later".to_vec())]);
}

#[tokio::test]
async fn late_bytes_never_arrive_after_a_reset() {
    let (proxy, mut received) = listening().await;
    let stream = late(&proxy, false).await;
    stream.set_zero_linger().expect("set");
    drop(stream);
    let said = timeout(LONG, received.recv()).await.expect("in time");
    assert_eq!(said, Some(Vec::new()));
}

#[tokio::test]
async fn delayed_bytes_arrive_before_the_reset_behind_them() {
    let (proxy, mut received) = listening().await;
    let stream = late(&proxy, true).await;
    stream.set_zero_linger().expect("set");
    drop(stream);
    proxy.set(Toxic::None);
    assert_eq!(timeout(LONG, received.recv()).await.expect("in time"), Some(b"late".to_vec()));
}
