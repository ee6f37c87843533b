//! A relay in front of a server that can hold back replies.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};

use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Forwards the bytes of its port, both ways. Ends with the test's runtime.
pub(crate) struct Relay {
    port: u16,
    answers: watch::Sender<bool>,
    ends: Ends,
}

/// How connections have ended: in good order, or by an error.
type Ends = Arc<Mutex<Vec<Option<ErrorKind>>>>;

/// On each connection: after this command, replies are held back until it has come so often.
#[derive(Clone, Copy)]
pub(crate) struct Hold {
    pub(crate) command: &'static str,
    pub(crate) times: usize,
}

// === impl Relay ===

impl Relay {
    pub(crate) async fn to(port: u16, hold: Option<Hold>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let answers = watch::Sender::new(true);
        let open = answers.subscribe();
        let ends = Ends::default();
        let noted = ends.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else {
                    continue;
                };
                pass(client, server, hold, open.clone(), noted.clone());
            }
        });
        Self { port: own, answers, ends }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// How connections to this port have ended so far: in good order (`None`), or by an error.
    pub(crate) fn ends(&self) -> Vec<Option<ErrorKind>> {
        self.ends.lock().expect("no panic").clone()
    }

    /// Whether replies are forwarded from now on; connections are accepted in any case.
    pub(crate) fn answers(&self, answers: bool) {
        self.answers.send_replace(answers);
    }
}

fn pass(
    client: TcpStream,
    server: TcpStream,
    hold: Option<Hold>,
    open: watch::Receiver<bool>,
    ends: Ends,
) {
    let ((from_client, to_client), (from_server, to_server)) =
        (client.into_split(), server.into_split());
    let count = Arc::new(watch::Sender::new(0));
    let forwarding = forward_commands(from_client, to_server, hold, count.clone());
    tokio::spawn(async move {
        let end = forwarding.await;
        ends.lock().expect("no panic").push(end);
    });
    tokio::spawn(forward_replies(from_server, to_client, hold, count.subscribe(), open));
}

async fn forward_commands(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    hold: Option<Hold>,
    count: Arc<watch::Sender<usize>>,
) -> Option<ErrorKind> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        let len = match read(&from, &mut bytes).await {
            Ok(0) => return None,
            Ok(len) => len,
            Err(error) => return Some(error.kind()),
        };
        if let Some(hold) = hold {
            all.extend_from_slice(&bytes[..len]);
            count.send_replace(String::from_utf8_lossy(&all).matches(hold.command).count());
        }
        if write(&to, &bytes[..len]).await.is_err() {
            return None;
        }
    }
}

async fn forward_replies(
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    hold: Option<Hold>,
    mut count: watch::Receiver<usize>,
    mut open: watch::Receiver<bool>,
) {
    let mut bytes = [0; 4096];
    while let Ok(len @ 1..) = read(&from, &mut bytes).await {
        if let Some(hold) = hold {
            let is_enough = |count: &usize| *count == 0 || *count >= hold.times;
            if count.wait_for(is_enough).await.is_err() {
                return;
            }
        }
        if open.wait_for(|open| *open).await.is_err() || write(&to, &bytes[..len]).await.is_err() {
            return;
        }
    }
}

async fn read(from: &OwnedReadHalf, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        from.readable().await?;
        match from.try_read(bytes) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn write(to: &OwnedWriteHalf, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        to.writable().await?;
        match to.try_write(bytes) {
            Ok(len) => bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
