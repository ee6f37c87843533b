use std::sync::Arc;

use redis::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::yield_now;

use super::question::{begin, word};
use super::{UNANSWERED_MAX, Wire};

fn wire() -> (Arc<Wire>, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Arc::new(Wire::new(ours)), theirs)
}

fn ping(outbox: &mut Vec<u8>) {
    begin(outbox, 1);
    word(outbox, b"PING");
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

async fn hears_pings(server: &mut DuplexStream, count: usize) {
    let mut heard = vec![0; PING.len() * count];
    server.read_exact(&mut heard).await.expect("questions");
    assert_eq!(heard, PING.repeat(count));
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_questions() {
    let (wire, mut server) = wire();
    let asked: Vec<_> = (0..3)
        .map(|_| {
            let wire = wire.clone();
            tokio::spawn(async move { wire.ask(ping).await })
        })
        .collect();
    hears_pings(&mut server, 3).await;
    // One of them is cut.
    server.write_all(b":0\r\n$3\r\non").await.expect("written");
    yield_now().await;
    server.write_all(b"e\r\n+OK\r\n").await.expect("written");
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.await.expect("it ends").expect("an answer"));
    }
    assert_eq!(answers, [Value::Int(0), Value::BulkString(b"one".to_vec()), Value::Okay]);
}

/// The story: each question was a system call of its own.
#[tokio::test]
async fn what_is_asked_at_once_is_sent_at_once() {
    let (ours, mut server) = duplex(1 << 20);
    let wire = Arc::new(Wire::new(ours));
    for _ in 0..50 {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await });
    }
    let mut heard = vec![0; 1 << 16];
    let count = server.read(&mut heard).await.expect("questions");
    assert_eq!(count, PING.len() * 50);
}

/// Trap 13: the answer to a question that nobody waits for any more is not the next one's.
#[tokio::test]
async fn who_gives_up_does_not_shift_the_answers() {
    let (wire, mut server) = wire();
    let given_up = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    hears_pings(&mut server, 1).await;
    given_up.abort();
    let other = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    hears_pings(&mut server, 1).await;
    server.write_all(b":1\r\n:2\r\n").await.expect("written");
    assert_eq!(other.await.expect("it ends").expect("an answer"), Value::Int(2));
}

#[tokio::test]
async fn all_who_wait_hear_that_it_broke_and_so_does_the_next() {
    let (wire, mut server) = wire();
    let asked = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    hears_pings(&mut server, 1).await;
    assert!(wire.is_open());
    drop(server);
    assert!(asked.await.expect("it ends").is_err());
    assert!(!wire.is_open());
    assert!(wire.ask(ping).await.is_err());
    assert!(wire.ask_all(2, ping).await.is_err());
}

#[tokio::test]
async fn what_the_server_says_unasked_is_why_it_ends() {
    let (wire, mut server) = wire();
    server.write_all(b"-ERR max number of clients reached\r\n").await.expect("written");
    while wire.is_open() {
        yield_now().await;
    }
    let error = wire.ask(ping).await.expect_err("no connection");
    assert!(error.to_string().contains("max number of clients"), "{error}");
}

/// I10: a server that answers slowly does not make us remember without end.
#[tokio::test]
async fn who_asks_too_much_waits_for_answers() {
    let (wire, mut server) = wire();
    for _ in 0..UNANSWERED_MAX {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await });
    }
    hears_pings(&mut server, UNANSWERED_MAX).await;
    let next = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(wire.shared.desk().unanswered, UNANSWERED_MAX);
    server.write_all(b":1\r\n").await.expect("written");
    hears_pings(&mut server, 1).await;
    server.write_all(&b":2\r\n".repeat(UNANSWERED_MAX)).await.expect("written");
    assert_eq!(next.await.expect("it ends").expect("an answer"), Value::Int(2));
}

/// Nobody gets in between questions that belong together.
#[tokio::test]
async fn questions_that_belong_together_stay_together() {
    let (wire, mut server) = wire();
    let asked = {
        let wire = wire.clone();
        tokio::spawn(async move {
            let both = |outbox: &mut Vec<u8>| {
                ping(outbox);
                ping(outbox);
            };
            wire.ask_all(2, both).await
        })
    };
    hears_pings(&mut server, 2).await;
    server.write_all(b":1\r\n-ERR no\r\n").await.expect("written");
    let answers = asked.await.expect("it ends").expect("answers");
    assert_eq!(answers[0], Value::Int(1));
    assert!(answers[1].clone().extract_error().is_err());
}

/// The story: a driver that ended with its runtime left those behind who had just asked.
#[tokio::test]
async fn a_runtime_that_ends_takes_nobody_along() {
    let (ours, _server) = duplex(1 << 20);
    let elsewhere = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let wire = elsewhere.block_on(async { Arc::new(Wire::new(ours)) });
    let asked = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    while wire.shared.desk().unanswered == 0 {
        yield_now().await;
    }
    elsewhere.shutdown_background();
    assert!(asked.await.expect("it ends").is_err());
    assert!(!wire.is_open());
}
