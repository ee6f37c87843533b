//! Letting clients in.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
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
