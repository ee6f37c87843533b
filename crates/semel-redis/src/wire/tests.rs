use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use semel_socket::Ending;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

use super::command::{begin, bulk, number};
use super::{BYTES_PER_PERMIT, CAPACITY, CallError, Wire};

fn wire() -> (Arc<Wire>, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Arc::new(Wire::new(ours, Ending::default())), theirs)
}

fn ping(out: &mut Vec<u8>) {
    begin(out, 1);
    bulk(out, b"PING");
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn pending(wire: &Wire) -> usize {
    CAPACITY - wire.shared.capacity.available_permits()
}

fn calls_within(
    wire: &Arc<Wire>,
    limit: Duration,
    bytes: usize,
) -> JoinHandle<Result<Value, CallError>> {
    let (wire, deadline) = (wire.clone(), Instant::now() + limit);
    tokio::spawn(async move { wire.send_before(deadline, bytes, ping).await })
}

async fn expect_pings(server: &mut DuplexStream, count: usize) {
    let mut received = vec![0; PING.len() * count];
    server.read_exact(&mut received).await.expect("commands");
    assert_eq!(received, PING.repeat(count));
}

#[tokio::test]
async fn answers_come_in_the_order_of_the_questions() {
    let (wire, mut server) = wire();
    let sent: Vec<_> = (0..3)
        .map(|_| {
            let wire = wire.clone();
            tokio::spawn(async move { wire.send(ping).await })
        })
        .collect();
    expect_pings(&mut server, 3).await;
    // One reply is cut in the middle.
    server.write_all(b":0\r\n$3\r\non").await.expect("written");
    yield_now().await;
    server.write_all(b"e\r\n+OK\r\n").await.expect("written");
    let mut answers = Vec::new();
    for sent in sent {
        answers.push(sent.await.expect("it ends").expect("an answer"));
    }
    assert_eq!(answers, [Value::Int(0), Value::BulkString(b"one".to_vec()), Value::Okay]);
}

/// Regression: each command was a system call of its own.
#[tokio::test]
async fn concurrent_commands_are_sent_in_one_write() {
    let (ours, mut server) = duplex(1 << 20);
    let wire = Arc::new(Wire::new(ours, Ending::default()));
    for _ in 0..50 {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await });
    }
    let mut received = vec![0; 1 << 16];
    let count = server.read(&mut received).await.expect("commands");
    assert_eq!(count, PING.len() * 50);
}

/// Trap 13: the reply to an abandoned call is not dispatched to the next call.
#[tokio::test]
async fn an_abandoned_call_does_not_shift_replies() {
    let (wire, mut server) = wire();
    let given_up = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await })
    };
    expect_pings(&mut server, 1).await;
    given_up.abort();
    let other = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await })
    };
    expect_pings(&mut server, 1).await;
    server.write_all(b":1\r\n:2\r\n").await.expect("written");
    assert_eq!(other.await.expect("it ends").expect("an answer"), Value::Int(2));
}

#[tokio::test]
async fn a_broken_connection_fails_pending_and_later_calls() {
    let (wire, mut server) = wire();
    let sent = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await })
    };
    expect_pings(&mut server, 1).await;
    assert!(wire.is_open());
    drop(server);
    assert!(sent.await.expect("it ends").is_err());
    assert!(!wire.is_open());
    assert!(wire.send(ping).await.is_err());
    assert!(wire.send_all(2, ping).await.is_err());
}

#[tokio::test]
async fn an_unexpected_message_is_the_reason_of_the_end() {
    let (wire, mut server) = wire();
    server.write_all(b"-ERR max number of clients reached\r\n").await.expect("written");
    while wire.is_open() {
        yield_now().await;
    }
    let error = wire.send(ping).await.expect_err("no connection");
    assert!(error.to_string().contains("max number of clients"), "{error}");
}

/// I10: a slow server does not make the pending queue grow without limit.
#[tokio::test]
async fn callers_wait_for_permits_when_the_queue_is_full() {
    let (wire, mut server) = wire();
    for _ in 0..CAPACITY {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await });
    }
    expect_pings(&mut server, CAPACITY).await;
    let next = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.send(ping).await })
    };
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(pending(&wire), CAPACITY);
    server.write_all(b":1\r\n").await.expect("written");
    expect_pings(&mut server, 1).await;
    server.write_all(&b":2\r\n".repeat(CAPACITY)).await.expect("written");
    assert_eq!(next.await.expect("it ends").expect("an answer"), Value::Int(2));
}

/// No other command comes between the commands of a batch.
#[tokio::test]
async fn questions_that_belong_together_stay_together() {
    let (wire, mut server) = wire();
    let sent = {
        let wire = wire.clone();
        tokio::spawn(async move {
            let both = |out: &mut Vec<u8>| {
                ping(out);
                ping(out);
            };
            wire.send_all(2, both).await
        })
    };
    expect_pings(&mut server, 2).await;
    server.write_all(b":1\r\n-ERR no\r\n").await.expect("written");
    let answers = sent.await.expect("it ends").expect("answers");
    assert_eq!(answers[0], Value::Int(1));
    assert!(answers[1].clone().extract_error().is_err());
}

/// Regression: a driver that ended with its runtime left callers waiting that had just sent.
#[tokio::test]
async fn a_driver_that_ends_with_its_runtime_fails_pending_calls() {
    for is_sent in [false, true] {
        let (ours, mut server) = duplex(1 << 20);
        let mut elsewhere = if is_sent {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            // The runtime is never run, so nothing is sent.
            tokio::runtime::Builder::new_current_thread()
        };
        let elsewhere = elsewhere.enable_time().build().expect("a runtime");
        let wire = {
            let _here = elsewhere.enter();
            Arc::new(Wire::new(ours, Ending::default()))
        };
        let sent = calls_within(&wire, Duration::from_mins(1), 0);
        if is_sent {
            expect_pings(&mut server, 1).await;
        }
        while pending(&wire) == 0 {
            yield_now().await;
        }
        elsewhere.shutdown_background();
        assert!(matches!(sent.await.expect("it ends"), Err(CallError::Broken(_))));
        assert!(!wire.is_open());
    }
}

/// Regression: an unresponsive connection stayed in use because every caller gave up before its deadline.
#[tokio::test(start_paused = true)]
async fn an_overdue_reply_closes_the_connection_even_if_its_caller_is_gone() {
    let (wire, mut server) = wire();
    let left = calls_within(&wire, Duration::from_secs(2), 0);
    expect_pings(&mut server, 1).await;
    left.abort();
    let late = calls_within(&wire, Duration::from_secs(3), 0);
    expect_pings(&mut server, 1).await;
    let patient = calls_within(&wire, Duration::from_mins(1), 0);
    expect_pings(&mut server, 1).await;
    while wire.is_open() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!late.is_finished(), "it has time left");
    assert!(matches!(late.await.expect("it ends"), Err(CallError::Timeout)));
    // Calls with time left still get their own replies.
    server.write_all(b":1\r\n:2\r\n:3\r\n").await.expect("written");
    assert_eq!(patient.await.expect("it ends").expect("an answer"), Value::Int(3));
    assert_eq!(pending(&wire), 0);
}

/// Regression: a batch had no deadline on the wire, so an unresponsive connection stayed in use.
#[tokio::test(start_paused = true)]
async fn questions_that_belong_together_may_be_late_as_well() {
    let (wire, _server) = wire();
    let both = |out: &mut Vec<u8>| {
        ping(out);
        ping(out);
    };
    let deadline = Instant::now() + Duration::from_secs(1);
    let sent = wire.send_batch(Some(deadline), 2, both).await;
    assert!(matches!(sent, Err(CallError::Timeout)));
    assert!(!wire.is_open());
}

/// Calls whose command could not be sent time out, too.
#[tokio::test(start_paused = true)]
async fn calls_behind_a_stuck_server_time_out() {
    let (ours, _server) = duplex(4);
    let wire = Arc::new(Wire::new(ours, Ending::default()));
    let stuck = calls_within(&wire, Duration::from_secs(1), 0);
    while pending(&wire) == 0 {
        yield_now().await;
    }
    let behind = calls_within(&wire, Duration::from_secs(2), 0);
    assert!(matches!(stuck.await.expect("it ends"), Err(CallError::Timeout)));
    assert!(matches!(behind.await.expect("it ends"), Err(CallError::Timeout)));
}

/// A command that was never sent must not be reported as one that may have taken effect.
#[tokio::test(start_paused = true)]
async fn a_call_without_a_permit_in_time_has_sent_nothing() {
    let (wire, mut server) = wire();
    // As many permits as a thousand commands.
    let long = calls_within(&wire, Duration::from_mins(1), CAPACITY * BYTES_PER_PERMIT * 2);
    expect_pings(&mut server, 1).await;
    let crowded = calls_within(&wire, Duration::from_secs(1), 0);
    assert!(matches!(crowded.await.expect("it ends"), Err(CallError::QueueFull)));
    assert!(wire.is_open(), "the server is not late");
    server.write_all(b":1\r\n").await.expect("written");
    assert_eq!(long.await.expect("it ends").expect("an answer"), Value::Int(1));
    assert_eq!(pending(&wire), 0);
}

#[tokio::test]
async fn calls_waiting_for_a_permit_fail_when_the_connection_breaks() {
    let (wire, mut server) = wire();
    let _long = calls_within(&wire, Duration::from_mins(1), CAPACITY * BYTES_PER_PERMIT);
    expect_pings(&mut server, 1).await;
    let replies = [0; 3].map(|_| calls_within(&wire, Duration::from_mins(1), 0));
    yield_now().await;
    drop(server);
    for replies in replies {
        assert!(matches!(replies.await.expect("it ends"), Err(CallError::Broken(_))));
    }
}

/// I10: bytes without a command are not collected.
#[tokio::test]
async fn a_server_that_sends_without_a_command_is_disconnected() {
    let (wire, mut server) = wire();
    server.write_all(b"$1000000\r\n").await.expect("written");
    // The write fails when the reader is gone.
    while server.write_all(&[b'x'; 1_000]).await.is_ok() {
        yield_now().await;
    }
    assert!(!wire.is_open());
}

#[tokio::test]
async fn dropping_the_last_user_closes_an_unresponsive_connection() {
    let (wire, mut server) = wire();
    let sent = calls_within(&wire, Duration::from_mins(1), 0);
    expect_pings(&mut server, 1).await;
    sent.abort();
    assert!(sent.await.is_err());
    drop(wire);
    assert_eq!(server.read(&mut [0; 1]).await.expect("the end"), 0);
}

/// Many threads, many abandoned calls, a stream of a few bytes at a time: every call gets its own reply.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_gets_its_own_answer() {
    const EACH: u64 = 2_000;
    let (ours, theirs) = duplex(16);
    let wire = Arc::new(Wire::new(ours, Ending::default()));
    let server = tokio::spawn(echo(theirs));
    let callers: Vec<_> = (0..8_u64)
        .map(|task| {
            let wire = wire.clone();
            tokio::spawn(async move {
                for own in (0..EACH).map(|count| task * EACH + count) {
                    let write = |out: &mut Vec<u8>| {
                        begin(out, 1);
                        number(out, own);
                    };
                    let deadline = Instant::now() + Duration::from_mins(1);
                    let mut sent = Box::pin(wire.send_before(deadline, 0, write));
                    if own % 3 == 0 {
                        // Polled once and dropped.
                        let _ = polled_once(sent.as_mut()).await;
                        continue;
                    }
                    let expected = Value::BulkString(own.to_string().into_bytes());
                    assert_eq!(sent.await.expect("an answer"), expected);
                }
            })
        })
        .collect();
    for callers in callers {
        callers.await.expect("each its own");
    }
    drop(wire);
    server.await.expect("it ends");
}

/// Polls a future once.
async fn polled_once<F: Future + Unpin>(mut future: F) -> bool {
    std::future::poll_fn(|context| {
        std::task::Poll::Ready(std::pin::Pin::new(&mut future).poll(context).is_ready())
    })
    .await
}

/// Replies to each command of one part with that part.
async fn echo(stream: DuplexStream) {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Ok(Some(_one)) = lines.next_line().await {
        let (Ok(Some(length)), Ok(Some(text))) = (lines.next_line().await, lines.next_line().await)
        else {
            return;
        };
        if writer.write_all(format!("{length}\r\n{text}\r\n").as_bytes()).await.is_err() {
            return;
        }
    }
}
