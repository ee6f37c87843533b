//! Verbs that come too late, and verbs whose wait for a lock times out.

mod support;

use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId};
use semel_postgres::{Options, PostgresStore, migrate};
use semel_store::{Store as _, StoreError};
use semel_testserver::Postgres;
use tokio::io::AsyncWriteExt as _;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use support::{connect, fresh_url, options, schema_of};

const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
const TIMEOUT: Duration = Duration::from_mins(1);

async fn eventually(what: &str, mut seen: impl AsyncFnMut() -> bool) {
    let look = async {
        while !seen().await {
            sleep(BETWEEN_LOOKS).await;
        }
    };
    assert!(timeout(TIMEOUT, look).await.is_ok(), "it never happened that {what}");
}

async fn claim(store: &PostgresStore, number: u8, owner: u128) -> Result<Claim, StoreError> {
    let id = RecordId::from_bytes([number; 32]);
    let attempt = Attempt::new(id, Fingerprint::new([("body", "x")]), Owner::from_u128(owner));
    store.claim(&attempt, &Policy::default()).await
}

/// How connections have ended: in good order (`None`), or by an error.
type Ends = Arc<Mutex<Vec<Option<ErrorKind>>>>;

/// A relay in front of the server that can hold back answers.
struct Relay {
    port: u16,
    answers: watch::Sender<bool>,
    ends: Ends,
}

impl Relay {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let own = listener.local_addr().expect("an address").port();
        let (answers, ends) = (watch::Sender::new(true), Ends::default());
        let (open, noted) = (answers.subscribe(), ends.clone());
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let server = TcpStream::connect(("127.0.0.1", port)).await.expect("the server");
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let (noted, open) = (noted.clone(), open.clone());
                tokio::spawn(async move {
                    let end = pass(from_client, to_server, None).await;
                    noted.lock().expect("no panic").push(end);
                });
                tokio::spawn(pass(from_server, to_client, Some(open)));
            }
        });
        Self { port: own, answers, ends }
    }

    fn ends(&self) -> Vec<Option<ErrorKind>> {
        self.ends.lock().expect("no panic").clone()
    }
}

async fn pass(
    from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut open: Option<watch::Receiver<bool>>,
) -> Option<ErrorKind> {
    let mut bytes = [0; 4096];
    loop {
        from.readable().await.expect("a socket");
        let len = match from.try_read(&mut bytes) {
            Ok(0) => return None,
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
            Err(error) => return Some(error.kind()),
        };
        if let Some(open) = &mut open {
            open.wait_for(|open| *open).await.ok()?;
        }
        to.write_all(&bytes[..len]).await.ok()?;
    }
}

/// A claim that is never answered, and how its connection ends.
async fn claim_in_vain(options: Options, relay: &Relay) {
    let store = options.verb_timeout(Duration::from_millis(200)).open().await.expect("a store");
    let granted = claim(&store, 1, 1).await.expect("an answer");
    assert!(matches!(granted, Claim::Execute(_)), "{granted:?}");
    relay.answers.send_replace(false);
    let error = claim(&store, 2, 1).await.expect_err("no answer");
    assert!(matches!(error, StoreError::TimedOut { .. }), "{error:?}");
    let reset = Some(ErrorKind::ConnectionReset);
    eventually("it is reset", async || relay.ends().contains(&reset)).await;
    relay.answers.send_replace(true);
    eventually("another is made", async || claim(&store, 3, 1).await.is_ok()).await;
}

#[tokio::test]
async fn a_connection_with_an_overdue_answer_is_reset() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let port = Postgres::shared().port();
    let relay = Relay::to(port).await;
    let through = url.replacen(&format!(":{port}/"), &format!(":{}/", relay.port), 1);
    claim_in_vain(options(&through), &relay).await;
}

#[tokio::test]
async fn a_connection_without_debts_is_closed_in_good_order() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let port = Postgres::shared().port();
    let relay = Relay::to(port).await;
    let through = url.replacen(&format!(":{port}/"), &format!(":{}/", relay.port), 1);
    let store = options(&through).open().await.expect("a store");
    claim(&store, 1, 1).await.expect("an answer");
    drop(store);
    eventually("it is closed", async || !relay.ends().is_empty()).await;
    assert!(relay.ends().iter().all(Option::is_none), "{:?}", relay.ends());
}

/// A record that another program has locked affects that record only: a breaker must not count it. A
/// locked table affects all records.
#[tokio::test]
async fn a_locked_record_is_no_outage() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let store = options(&url).verb_timeout(Duration::from_millis(500)).open().await;
    let store = store.expect("a store");
    claim(&store, 1, 1).await.expect("an answer");
    let (other, schema) = (connect(&url).await, schema_of(&url));
    let lock = format!("BEGIN; SELECT 1 FROM {schema}.record FOR UPDATE");
    other.batch_execute(&lock).await.expect("a lock");
    let error = claim(&store, 1, 1).await.expect_err("locked");
    assert!(matches!(error, StoreError::Declined { .. }), "{error:?}");
    assert!(error.is_passing() && !error.is_outage(), "{error:?}");
    assert!(error.to_string().contains("55P03"), "{error}");
    claim(&store, 2, 1).await.expect("another record is served");
    other.batch_execute("ROLLBACK").await.expect("no lock");
    claim(&store, 1, 1).await.expect("an answer");
    let lock = format!("BEGIN; LOCK TABLE {schema}.record IN ACCESS EXCLUSIVE MODE");
    other.batch_execute(&lock).await.expect("a lock");
    let error = claim(&store, 1, 1).await.expect_err("locked");
    assert!(error.is_outage(), "{error:?}");
}
