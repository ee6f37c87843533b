use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use super::TIMEOUT;

const ANSWER: &[u8] =
    b"HTTP/1.1 201 Created\r\ncontent-length: 5\r\nconnection: close\r\n\r\ndone\n";

/// An API that answers each request when the test lets it.
pub(crate) struct Upstream {
    pub(crate) address: SocketAddr,
    arrivals: mpsc::Receiver<()>,
    go: mpsc::Sender<()>,
}

// === impl Upstream ===

impl Upstream {
    /// Answers at once.
    pub(crate) fn prompt() -> Self {
        let upstream = Self::held();
        for _ in 0..1_000 {
            upstream.let_go();
        }
        upstream
    }

    /// Waits for [`let_go`](Self::let_go), once for each request.
    pub(crate) fn held() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let ((arrived, arrivals), (go, wait)) = (mpsc::channel(), mpsc::channel());
        let wait = Arc::new(Mutex::new(wait));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (arrived, wait) = (arrived.clone(), wait.clone());
                thread::spawn(move || serve(stream, &arrived, &wait));
            }
        });
        Self { address, arrivals, go }
    }

    /// Waits for a request.
    pub(crate) fn arrival(&self) {
        self.arrivals.recv_timeout(TIMEOUT).expect("a request");
    }

    pub(crate) fn let_go(&self) {
        self.go.send(()).expect("an upstream");
    }
}

/// A disconnected client needs no answer.
fn serve(stream: TcpStream, arrived: &mpsc::Sender<()>, wait: &Mutex<mpsc::Receiver<()>>) {
    let mut reader = BufReader::new(stream.try_clone().expect("a stream"));
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or_default() == 0 {
            return;
        }
        let line = line.trim().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().expect("a length");
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    let _ = reader.read_exact(&mut body);
    let _ = arrived.send(());
    if wait.lock().is_ok_and(|wait| wait.recv().is_ok()) {
        let mut stream = stream;
        let _ = stream.write_all(ANSWER);
    }
}
