//! Fetching keys from servers that misbehave.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::fetch::{FETCH_MAX, FetchError, fetch};
use super::source::KEYS_MAX;
use crate::config::{KeysFrom, KeysUrl};

/// Sends `answer` to the first request, and closes the connection.
async fn replying(answer: Vec<u8>) -> (KeysUrl, oneshot::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!("http://{}/keys/?a=b", listener.local_addr().unwrap());
    let (seen, asked) = oneshot::channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let _ = seen.send(String::from_utf8(request).unwrap());
        // The client may not read all of it.
        let _ = stream.write_all(&answer).await;
    });
    let Ok(KeysFrom::Url(url)) = KeysFrom::parse(&text) else { panic!("{text}") };
    (url, asked)
}

fn answer(status: &str, fields: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\n{fields}Content-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn a_key_set_is_fetched_by_path_and_query() {
    let (url, asked) = replying(answer("200 OK", "", b"{}")).await;
    assert_eq!(fetch(&url, None).await.unwrap(), b"{}");
    let asked = asked.await.unwrap();
    assert!(asked.starts_with("GET /keys/?a=b HTTP/1.1\r\n"), "{asked}");
    assert!(asked.contains(&format!("host: {}\r\n", url.server.authority())), "{asked}");
}

#[tokio::test]
async fn a_response_that_is_no_key_set_is_an_error_with_a_cure() {
    let large = vec![b' '; KEYS_MAX + 1];
    let broken = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{".to_vec();
    let moved = answer("302 Found", "Location: http://127.0.0.1:1/\r\n", b"");
    for (said, expected) in [
        (moved, "it answered 302 Found; write the URL that it redirects to"),
        (answer("404 Not Found", "", b""), "it answered 404 Not Found; is `keys`"),
        (answer("503 Service Unavailable", "", b""), "it answered 503"),
        (answer("200 OK", "", &large), "has more than 524288 bytes"),
        (broken, "its answer broke off"),
        (Vec::new(), "connection closed"),
        (b"nonsense\r\n\r\n".to_vec(), "invalid HTTP"),
    ] {
        let (url, _asked) = replying(said).await;
        let error = fetch(&url, None).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[tokio::test]
async fn a_refused_connection_is_an_error() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let Ok(KeysFrom::Url(url)) = KeysFrom::parse(&text) else { panic!("{text}") };
    let error = fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, FetchError::Io(_)), "{error}");
}

/// The connection is accepted by the system, and no response comes.
#[tokio::test(start_paused = true)]
async fn a_fetch_without_a_response_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let text = format!("http://{}/", listener.local_addr().unwrap());
    let Ok(KeysFrom::Url(url)) = KeysFrom::parse(&text) else { panic!("{text}") };
    let began = tokio::time::Instant::now();
    let error = fetch(&url, None).await.unwrap_err();
    assert!(matches!(error, FetchError::Late), "{error}");
    assert!(began.elapsed() < FETCH_MAX + Duration::from_secs(1));
    drop(listener);
}
