//! Letting clients in.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::Workers;

/// What a client gets that is one too many.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-type: application/problem+json\r\nretry-after: 1\r\nconnection: close\r\n\
    content-length: 246\r\n\r\n\
    {\"type\":\"https://semel.dev/problems/too_busy\",\"title\":\"Too much is running\",\"status\":503,\
    \"detail\":\"too many connections; nothing was executed\",\"error_code\":\"too_busy\",\
    \"error_message\":\"too many connections; nothing was executed\",\"retry_safe\":true}";

/// How long one that is turned away may take to read that, and how many may do so at a time.
const FAREWELL: Duration = Duration::from_secs(1);
const FAREWELLS_MAX: usize = 256;

/// How many may wait to be let in; the system may allow fewer. When a crowd comes at once, as after a
/// restart, whoever finds no room here is heard a second later.
const CROWD_MAX: u32 = 4_096;

/// Begins to listen.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(CROWD_MAX)
}

/// Lets clients in until `draining`, at most `max` at a time.
pub(crate) async fn accept(
    listener: TcpListener,
    workers: &Workers,
    max: usize,
    draining: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(max.min(Semaphore::MAX_PERMITS)));
    let farewells = Arc::new(Semaphore::new(FAREWELLS_MAX));
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = draining.cancelled() => return,
        };
        match accepted {
            Ok((stream, peer)) => match places.clone().try_acquire_owned() {
                Ok(permit) => match prepare(stream) {
                    Ok(stream) => workers.hand_over(stream, peer, permit),
                    Err(error) => tracing::debug!(%error, "a connection was gone at once"),
                },
                Err(_) => turn_away(stream, max, &farewells),
            },
            Err(error) => {
                // Most often too many open files: others may close some soon.
                tracing::warn!(%error, "no connection can be accepted now");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Takes a stream from this thread's reactor, for another's.
fn prepare(stream: TcpStream) -> io::Result<std::net::TcpStream> {
    stream.set_nodelay(true)?;
    stream.into_std()
}

/// Tells a client that is one too many, without waiting for it. What it sends is read for a while:
/// closing a socket with unread bytes would make the system reset it, and the answer be lost.
fn turn_away(mut stream: TcpStream, max: usize, farewells: &Arc<Semaphore>) {
    tracing::warn!(max, "too many connections");
    let Ok(permit) = farewells.clone().try_acquire_owned() else { return };
    tokio::spawn(async move {
        let farewell = async {
            stream.write_all(FULL).await?;
            stream.shutdown().await?;
            tokio::io::copy(&mut stream, &mut tokio::io::sink()).await
        };
        // Whether it took the answer is its own affair.
        let _ = timeout(FAREWELL, farewell).await;
        drop(permit);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// While nobody is let in: as many as the system allows, and more than the 128 that are usual.
    #[tokio::test]
    async fn a_crowd_may_wait_to_be_let_in() {
        let listener = listen("127.0.0.1:0".parse().expect("an address")).expect("it listens");
        let address = listener.local_addr().expect("its address");
        let allowed = std::fs::read_to_string("/proc/sys/net/core/somaxconn").expect("Linux");
        let allowed: usize = allowed.trim().parse().expect("a number");
        let mut crowd = Vec::new();
        for number in 0..allowed.min(400) {
            // Whom the system does not hear calls again after a second, and is not heard then either.
            let coming = timeout(Duration::from_secs(5), TcpStream::connect(address)).await;
            crowd.push(coming.unwrap_or_else(|_| panic!("number {number} is not heard")));
        }
        assert!(crowd.iter().all(Result::is_ok), "{crowd:?}");
    }

    #[test]
    fn the_answer_to_one_too_many_is_well_formed() {
        let text = std::str::from_utf8(FULL).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem = semel_http::problem::Problem::new(
            semel_http::problem::Code::TooBusy,
            "too many connections; nothing was executed",
        );
        assert_eq!(problem.into_response::<bytes::Bytes>().into_body(), body.as_bytes());
    }
}
