//! A relay to the server that cuts connections at the worst moment.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use semel_testserver::Postgres;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// The moment of a cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Before the commit reaches the server.
    Before,
    /// After the commit is sent; its answer is lost.
    During,
    /// After the server has committed and answered; its answer is lost.
    After,
    /// Long before: after the server has granted the claim; its answer is lost. The server's end of the
    /// connection stays open.
    Claim,
}

/// A proxy in front of the shared server. It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    port: u16,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    cut: Cut,
    /// The number of commits that are still to be cut.
    cuts: AtomicUsize,
    /// Whether new connections are refused once all cuts are made.
    dead_after: bool,
    commits: AtomicUsize,
    rollbacks: AtomicUsize,
    /// Connections of which only the server's end is left.
    orphans: Mutex<Vec<TcpStream>>,
}

/// As a message of its own, to the server and from it.
const COMMIT: &[u8] = b"Q\0\0\0\x0bCOMMIT\0";
const COMMITTED: &[u8] = b"C\0\0\0\x0bCOMMIT\0";
/// In the middle of a claim, and what a transaction under way is ready with.
const LOCK: &[u8] = b"pg_try_advisory_xact_lock";
const READY: &[u8] = b"Z\0\0\0\x05T";
const ROLLBACK: &[u8] = b"Q\0\0\0\x0dROLLBACK\0";

// === impl Line ===

impl Relay {
    /// A relay that cuts the first commit.
    pub(crate) async fn cut_once(cut: Cut) -> Self {
        Self::open(cut, false).await
    }

    /// The same, and later connections are refused.
    pub(crate) async fn cut_for_good(cut: Cut) -> Self {
        Self::open(cut, true).await
    }

    async fn open(cut: Cut, dead_after: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Claims are cut on request: the first must have passed by then.
        let cuts = AtomicUsize::new(usize::from(cut != Cut::Claim));
        let (commits, rollbacks) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let shared = Arc::new(Shared {
            cut,
            cuts,
            dead_after,
            commits,
            rollbacks,
            orphans: Mutex::default(),
        });
        let accepting = tokio::spawn(shared.clone().accept(listener));
        Self { port, shared, accepting }
    }

    /// An address of the shared server, through this relay.
    pub(crate) fn through(&self, url: &str) -> String {
        let direct = format!(":{}/", Postgres::shared().port());
        url.replacen(&direct, &format!(":{}/", self.port), 1)
    }

    pub(crate) fn was_cut(&self) -> bool {
        self.shared.cuts.load(Ordering::SeqCst) == 0
    }

    /// Cuts the next claim.
    pub(crate) fn cut_next(&self) {
        self.shared.cuts.store(1, Ordering::SeqCst);
    }

    /// Closes the server's ends of connections that were cut without its knowledge.
    pub(crate) fn close_orphans(&self) {
        self.shared.orphans.lock().unwrap().clear();
    }

    /// The number of commits that the client has sent.
    pub(crate) fn commits(&self) -> usize {
        self.shared.commits.load(Ordering::SeqCst)
    }

    /// The number of rollbacks that the client has sent.
    pub(crate) fn rollbacks(&self) -> usize {
        self.shared.rollbacks.load(Ordering::SeqCst)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

// === impl Shared ===

impl Shared {
    async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let (client, _) = listener.accept().await.unwrap();
            if self.dead_after && self.cuts.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let server = TcpStream::connect(("127.0.0.1", Postgres::shared().port())).await;
            tokio::spawn(self.clone().carry(client, server.unwrap()));
        }
    }

    /// Forwards a claim to the server, and waits until it is granted.
    async fn claim(&self, message: &[u8], server: &mut TcpStream) -> Option<()> {
        server.write_all(message).await.ok()?;
        let mut received = Vec::new();
        while position(&received, READY).is_none() {
            assert_ne!(server.read_buf(&mut received).await.unwrap(), 0, "it was not granted");
        }
        Some(())
    }

    /// Forwards bytes both ways until an end closes, or the connection is cut.
    async fn carry(self: Arc<Self>, mut client: TcpStream, mut server: TcpStream) {
        let (mut asked, mut answered) = (vec![0; 1 << 16], vec![0; 1 << 16]);
        loop {
            tokio::select! {
                Ok(count @ 1..) = client.read(&mut asked) => {
                    let is_claim = position(&asked[..count], LOCK).is_some();
                    if self.cut == Cut::Claim && is_claim && self.takes_cut() {
                        self.claim(&asked[..count], &mut server).await.unwrap();
                        self.orphans.lock().unwrap().push(server);
                        return;
                    }
                    if self.pass_on(&asked[..count], &mut server).await.is_none() {
                        return;
                    }
                }
                Ok(count @ 1..) = server.read(&mut answered) => {
                    let _ = client.write_all(&answered[..count]).await;
                }
                else => return,
            }
        }
    }

    /// Forwards a message of the client; `None` cuts. What the driver writes at once is read at once
    /// here, so a COMMIT comes in one piece.
    async fn pass_on(&self, message: &[u8], server: &mut TcpStream) -> Option<()> {
        if position(message, ROLLBACK).is_some() {
            self.rollbacks.fetch_add(1, Ordering::SeqCst);
        }
        let commit = position(message, COMMIT);
        if commit.is_some() {
            self.commits.fetch_add(1, Ordering::SeqCst);
        }
        let Some(commit) = commit.filter(|_| self.cut != Cut::Claim && self.takes_cut()) else {
            return server.write_all(message).await.ok();
        };
        let end = if self.cut == Cut::Before { commit } else { message.len() };
        server.write_all(&message[..end]).await.ok()?;
        if self.cut == Cut::After {
            let mut received = Vec::new();
            while position(&received, COMMITTED).is_none() {
                assert_ne!(server.read_buf(&mut received).await.unwrap(), 0, "it did not commit");
            }
        }
        None
    }

    fn takes_cut(&self) -> bool {
        let one_less = |cuts: usize| cuts.checked_sub(1);
        self.cuts.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less).is_ok()
    }
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
