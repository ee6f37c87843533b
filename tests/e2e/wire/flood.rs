//! One client that asks for more than its share, while another works. Trap 25, I10.

use std::collections::HashSet;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::{Duration, sleep, timeout};

use crate::support::{
    After, Client, Gate, Gateway, Http2, LIMIT, Seen, Upstream, answer, eventually, get, post,
    with_body,
};

/// How many streams the first client resets.
const RESETS: usize = 5_000;
/// What one connection may have in work, and what ended connections of one address may leave behind besides.
const IN_WORK_MAX: usize = 256;
const LEFT_MAX: usize = 2 * IN_WORK_MAX;
const BYPASSED: &str = "x-idempotency-bypassed";

/// A lower limit, for the tests in which clients hang up.
const LOW_LIMIT: &str =
    "[limits]\nmax_executions_per_connection = 32\n[policy]\non_store_down = \"open\"\n";
const LOW_IN_WORK_MAX: usize = 32;
/// What the connections of one address may leave behind then.
const LEFT_BEHIND_MAX: usize = 2 * LOW_IN_WORK_MAX;
/// How many requests the clients send that hang up, and after how many streams they do.
const HANG_UPS: usize = 300;
const STREAMS_BEFORE_HANGING_UP: usize = 20;

/// An upstream that holds `/held` at a gate, and notes which keys it has begun.
#[derive(Clone, Default)]
struct Held {
    gate: Gate,
    begun: Arc<Mutex<HashSet<String>>>,
}

/// What a flood came to.
#[derive(Debug, Default)]
struct Flooded {
    refused: usize,
    closed: usize,
}

// === impl Held ===

impl Held {
    fn upstream(&self) -> Upstream {
        let held = self.clone();
        Upstream::new(move |seen: &Seen, line| {
            if seen.target == "/held" {
                let key = seen.header("idempotency-key").unwrap_or_default().to_owned();
                held.begun.lock().unwrap().insert(key);
                held.gate.pass();
            }
            line.send(&answer(seen, "done"))?;
            Ok(After::Keep)
        })
    }

    fn has_begun(&self, key: &str) -> bool {
        self.begun.lock().unwrap().contains(key)
    }

    fn begun(&self) -> usize {
        self.begun.lock().unwrap().len()
    }

    /// Waits until a request is being executed.
    async fn wait_for(&self, key: &str) {
        while !self.has_begun(key) {
            sleep(Duration::from_millis(1)).await;
        }
    }

    /// Sends requests and resets each as soon as it is executed or answered; connects again when it is closed.
    async fn flood(&self, gateway: &Gateway) -> Flooded {
        let mut flooded = Flooded::default();
        let (mut client, mut end) = Http2::with_end(gateway.listen()).await;
        for number in 0..RESETS {
            let key = format!("k-{number}");
            let asked = client.post_to_reset("/held", &key);
            let answered = timeout(LIMIT, async {
                tokio::select! {
                    answered = asked => Some(answered),
                    () = self.wait_for(&key) => None,
                }
            });
            match answered.await.expect("it is executed or answered") {
                None => {}
                Some(Ok(response)) => {
                    assert_eq!(response.status(), 503, "{response:?}");
                    flooded.refused += 1;
                }
                Some(Err(_)) => {
                    let error = end.await.unwrap().expect_err("it was closed");
                    assert!(format!("{error:?}").contains("ENHANCE_YOUR_CALM"), "{error:?}");
                    flooded.closed += 1;
                    (client, end) = Http2::with_end(gateway.listen()).await;
                }
            }
        }
        flooded
    }
}

impl Held {
    /// Sends requests over HTTP/2 and closes the connection after every few of them. How many were refused.
    async fn flood_and_hang_up(&self, gateway: &Gateway) -> usize {
        let mut refused = 0;
        for first in (0..HANG_UPS).step_by(STREAMS_BEFORE_HANGING_UP) {
            let (client, socket) = Http2::with_socket(gateway.listen()).await;
            let mut open = Vec::new();
            for number in first..first + STREAMS_BEFORE_HANGING_UP {
                let key = format!("k-{number}");
                let mut asked = Box::pin(client.post_to_reset("/held", &key));
                let answered = timeout(LIMIT, async {
                    tokio::select! {
                        answered = &mut asked => Some(answered.unwrap()),
                        () = self.wait_for(&key) => None,
                    }
                });
                match answered.await.expect("it is executed or answered") {
                    // The stream stays open: the client closes all of them together.
                    None => open.push(asked),
                    Some(response) => {
                        assert_eq!(response.status(), 503, "{response:?}");
                        refused += 1;
                    }
                }
            }
            socket.shutdown(Shutdown::Both).unwrap();
            // A connection that is opened before the gateway has noticed would not be a new one.
            gateway.wait_for_connections(1);
        }
        refused
    }

    /// Sends requests over HTTP/1.1, each on a connection that is closed as soon as the request is executed or answered.
    /// How many were refused.
    async fn post_and_close(&self, gateway: &Gateway) -> usize {
        let mut refused = 0;
        for number in 0..HANG_UPS {
            let key = format!("k-{number}");
            let mut stream = TcpStream::connect(gateway.listen()).await.unwrap();
            stream.write_all(post("/held", &key, "x").as_bytes()).await.unwrap();
            let mut start = [0; 12];
            let answered = timeout(LIMIT, async {
                tokio::select! {
                    read = stream.read_exact(&mut start) => read.map(|_| true).unwrap(),
                    () = self.wait_for(&key) => false,
                }
            });
            if answered.await.expect("it is executed or answered") {
                assert_eq!(&start, b"HTTP/1.1 503");
                refused += 1;
            }
            drop(stream);
            gateway.wait_for_connections(1);
        }
        refused
    }
}

/// The status of a request on a new connection from this address.
async fn ask_from(from: &str, gateway: &Gateway, target: &str, key: &str) -> String {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(gateway.listen()).await.unwrap();
    stream.write_all(post(target, key, "x").as_bytes()).await.unwrap();
    let mut start = [0; 12];
    timeout(LIMIT, stream.read_exact(&mut start)).await.unwrap().unwrap();
    String::from_utf8_lossy(&start[9..]).into_owned()
}

/// After a client has hung up on many requests: what must hold for it and for others.
async fn assert_is_stopped(
    held: &Held,
    gateway: &Gateway,
    established: &mut Client,
    refused: usize,
) {
    let begun = held.begun();
    assert!(begun <= LEFT_BEHIND_MAX + LOW_IN_WORK_MAX, "{begun} executions");
    assert!(begun >= LEFT_BEHIND_MAX, "only {begun} executions");
    assert_eq!(begun + refused, HANG_UPS);
    // Another address, and a connection that was there before, are served.
    for number in 0..10 {
        assert_eq!(ask_from("127.0.0.2", gateway, "/quick", &format!("o-{number}")).await, "200");
        let reply = established.ask(post("/quick", &format!("e-{number}"), "x"));
        assert_eq!((reply.status, reply.header(BYPASSED)), (200, None), "{reply:?}");
    }
    assert_eq!(ask_from("127.0.0.1", gateway, "/quick", "refused").await, "503");
    assert_eq!(gateway.ask(get("/quick")).status, 200, "a health check of a load balancer");
    // Once that work has ended, the address is served again.
    held.gate.open();
    let served = async {
        while ask_from("127.0.0.1", gateway, "/quick", "served").await != "200" {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LIMIT, served).await.expect("the work ends");
}

/// The story: a client that closed its connection began the next one at zero, and its executions went on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_closes_its_http2_connections_is_stopped_and_others_are_not() {
    let held = Held::default();
    let upstream = held.upstream();
    let gateway = Gateway::start_embedded(&upstream, None, LOW_LIMIT);
    // The one connection that stays.
    let mut established = gateway.connect();
    assert_eq!(established.ask(post("/quick", "first", "x")).status, 200);
    let refused = held.flood_and_hang_up(&gateway).await;
    assert_is_stopped(&held, &gateway, &mut established, refused).await;
}

/// The same over HTTP/1.1, where nothing was counted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_posts_and_closes_over_http1_is_stopped_and_others_are_not() {
    let held = Held::default();
    let upstream = held.upstream();
    let gateway = Gateway::start_embedded(&upstream, None, LOW_LIMIT);
    let mut established = gateway.connect();
    assert_eq!(established.ask(post("/quick", "first", "x")).status, 200);
    let refused = held.post_and_close(&gateway).await;
    assert_is_stopped(&held, &gateway, &mut established, refused).await;
}

/// Asks again and again until it is `over`; how often, if each was answered under protection.
fn work(gateway: &Gateway, over: &AtomicBool) -> usize {
    let mut client = gateway.connect();
    let mut asked = 0;
    while !over.load(Ordering::Relaxed) {
        let reply = client.ask(post("/quick", &format!("w-{asked}"), "x"));
        assert_eq!((reply.status, reply.header(BYPASSED)), (200, None), "{reply:?}");
        asked += 1;
    }
    asked
}

/// The story: one connection that sent and reset POSTs left 2,032 executions and 2,056 descriptors behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_resets_what_it_asks_for_is_stopped_and_others_are_not() {
    let held = Held::default();
    let upstream = held.upstream();
    let gateway =
        Arc::new(Gateway::start_embedded(&upstream, None, "[policy]\non_store_down = \"open\"\n"));
    let over = Arc::new(AtomicBool::new(false));
    let most_files = Arc::new(AtomicUsize::new(0));
    let other = {
        let (gateway, over) = (gateway.clone(), over.clone());
        std::thread::spawn(move || work(&gateway, &over))
    };
    let watcher = {
        let (gateway, over, most) = (gateway.clone(), over.clone(), most_files.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(gateway.open_files(), Ordering::Relaxed);
            }
        })
    };
    let flooded = held.flood(&gateway).await;
    let begun = held.begun();
    over.store(true, Ordering::Relaxed);
    watcher.join().unwrap();
    assert!(other.join().unwrap() > 0);
    assert!(begun <= LEFT_MAX + IN_WORK_MAX, "{begun} executions");
    assert!(flooded.closed >= 2 && flooded.refused > RESETS / 2, "{flooded:?}");
    let most_files = most_files.load(Ordering::Relaxed);
    assert!(most_files < 1_200, "{most_files} descriptors");
    // What was begun is executed to its end, and its client has room again.
    held.gate.open();
    let client = Http2::plain(gateway.listen()).await;
    for number in 0..RESETS {
        let response = client.post("/held", &format!("again-{number}"), "").await;
        if response.status() == 200 {
            return;
        }
        assert_eq!(response.status(), 503);
    }
    panic!("nothing ended");
}

/// Descriptors that are not there for clients are there for the store.
#[test]
fn clients_cannot_take_the_descriptors_of_the_store() {
    let held = Held::default();
    let upstream = held.upstream();
    let tables = "[policy]\non_store_down = \"open\"\n";
    let gateway = Gateway::start_embedded(&upstream, Some(256), tables);
    // Half is kept back; clients and the upstream have a quarter each.
    let mut clients: Vec<Client> = (0..64).map(|_| gateway.connect()).collect();
    let (last, others) = clients.split_last_mut().unwrap();
    for (number, client) in others.iter_mut().enumerate() {
        client.send(post("/held", &format!("k-{number}"), "x"));
    }
    eventually("all are executed", || (held.begun() == others.len()).then_some(()));
    for number in 0..100 {
        let reply = last.ask(post("/quick", &format!("q-{number}"), "x"));
        assert_eq!((reply.status, reply.header(BYPASSED)), (200, None), "{reply:?}");
    }
    for _ in 0..100 {
        let mut more = gateway.connect();
        let reply = more.reply();
        assert_eq!((reply.status, reply.code().as_deref()), (503, Some("too_busy")));
    }
    assert!(gateway.open_files() < 256);
    held.gate.open();
    for client in others {
        assert_eq!(client.reply().status, 200);
    }
}

/// Bytes that do not compress, so that the store has to write them.
fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let letters = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b'!' + (state % 90) as u8)
    });
    letters.take(1 << 20).filter(|letter| *letter != '"').collect()
}

/// The story: the engine's worker died of a file that it could not open, the store counted as away, and whatever
/// came was executed without protection.
#[test]
fn a_gateway_without_descriptors_executes_nothing_unprotected_and_recovers() {
    let number = Arc::new(AtomicUsize::new(0));
    let seen = number.clone();
    let upstream = Upstream::new(move |request: &Seen, line| {
        let number = seen.fetch_add(1, Ordering::Relaxed) as u64;
        line.send(&answer(request, &noise(number)))?;
        Ok(After::Keep)
    });
    let tables = "[policy]\non_store_down = \"open\"\n[limits]\npool_idle_timeout = \"1h\"\n";
    let gateway = Gateway::start_embedded(&upstream, None, tables);
    let mut client = gateway.connect();
    let mut ask = |key: &str| {
        let reply =
            client.ask(with_body("POST", "/a", &format!("Idempotency-Key: {key}\r\n"), "x"));
        assert_eq!(reply.header(BYPASSED), None, "{key} was not protected");
        reply
    };
    assert_eq!(ask("first").status, 200);
    gateway.let_have_descriptors(0);
    // It writes until it needs another file.
    let refused = (0..200).find(|number| ask(&format!("k-{number}")).status != 200);
    let refused = refused.expect("the engine needs a file at some time");
    let executed = number.load(Ordering::Relaxed);
    for number in refused + 1..refused + 10 {
        let reply = ask(&format!("k-{number}"));
        assert_eq!((reply.status, reply.code().as_deref()), (503, Some("too_busy")), "{reply:?}");
        assert_eq!(reply.header("retry-after"), Some("1"));
    }
    assert_eq!(number.load(Ordering::Relaxed), executed, "something was executed");
    assert!(ask("first").is_replay());
    gateway.let_have_descriptors(1_024);
    eventually("it goes on", || (ask("later").status == 200).then_some(()));
    assert!(ask("later").is_replay() && ask("first").is_replay());
}
