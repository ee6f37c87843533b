use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use semel_socket::Ending;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

use super::question::{begin, number, word};
use super::{ROOM, ROOM_BYTES, Unanswered, Wire};

fn wire() -> (Arc<Wire>, DuplexStream) {
    let (ours, theirs) = duplex(1 << 20);
    (Arc::new(Wire::new(ours, Ending::default())), theirs)
}

fn ping(outbox: &mut Vec<u8>) {
    begin(outbox, 1);
    word(outbox, b"PING");
}

const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

fn unanswered(wire: &Wire) -> usize {
    ROOM - wire.shared.room.available_permits()
}

fn asks_within(
    wire: &Arc<Wire>,
    limit: Duration,
    bytes: usize,
) -> JoinHandle<Result<Value, Unanswered>> {
    let (wire, deadline) = (wire.clone(), Instant::now() + limit);
    tokio::spawn(async move { wire.ask_until(deadline, bytes, ping).await })
}

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
    let wire = Arc::new(Wire::new(ours, Ending::default()));
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
    for _ in 0..ROOM {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await });
    }
    hears_pings(&mut server, ROOM).await;
    let next = {
        let wire = wire.clone();
        tokio::spawn(async move { wire.ask(ping).await })
    };
    for _ in 0..10 {
        yield_now().await;
    }
    assert_eq!(unanswered(&wire), ROOM);
    server.write_all(b":1\r\n").await.expect("written");
    hears_pings(&mut server, 1).await;
    server.write_all(&b":2\r\n".repeat(ROOM)).await.expect("written");
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
    for is_sent in [false, true] {
        let (ours, mut server) = duplex(1 << 20);
        let mut elsewhere = if is_sent {
            tokio::runtime::Builder::new_multi_thread()
        } else {
            // Nobody runs it, so nothing is sent.
            tokio::runtime::Builder::new_current_thread()
        };
        let elsewhere = elsewhere.enable_time().build().expect("a runtime");
        let wire = {
            let _here = elsewhere.enter();
            Arc::new(Wire::new(ours, Ending::default()))
        };
        let asked = asks_within(&wire, Duration::from_mins(1), 0);
        if is_sent {
            hears_pings(&mut server, 1).await;
        }
        while unanswered(&wire) == 0 {
            yield_now().await;
        }
        elsewhere.shutdown_background();
        assert!(matches!(asked.await.expect("it ends"), Err(Unanswered::Broken(_))));
        assert!(!wire.is_open());
    }
}

/// The story: a connection that went silent was used again and again by those who never waited long enough
/// to call it silent.
#[tokio::test(start_paused = true)]
async fn an_answer_that_is_late_closes_the_door_also_if_nobody_waits_for_it() {
    let (wire, mut server) = wire();
    let left = asks_within(&wire, Duration::from_secs(2), 0);
    hears_pings(&mut server, 1).await;
    left.abort();
    let late = asks_within(&wire, Duration::from_secs(3), 0);
    hears_pings(&mut server, 1).await;
    let patient = asks_within(&wire, Duration::from_mins(1), 0);
    hears_pings(&mut server, 1).await;
    while wire.is_open() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(!late.is_finished(), "it has time left");
    assert!(matches!(late.await.expect("it ends"), Err(Unanswered::Late)));
    // Those who have time left are still answered, each with its own answer.
    server.write_all(b":1\r\n:2\r\n:3\r\n").await.expect("written");
    assert_eq!(patient.await.expect("it ends").expect("an answer"), Value::Int(3));
    assert_eq!(unanswered(&wire), 0);
}

/// The story: questions that belong together had no deadline on the wire, so a silent one stayed in use.
#[tokio::test(start_paused = true)]
async fn questions_that_belong_together_may_be_late_as_well() {
    let (wire, _server) = wire();
    let both = |outbox: &mut Vec<u8>| {
        ping(outbox);
        ping(outbox);
    };
    let deadline = Instant::now() + Duration::from_secs(1);
    let asked = wire.ask_together(Some(deadline), 2, both).await;
    assert!(matches!(asked, Err(Unanswered::Late)));
    assert!(!wire.is_open());
}

/// Those who could not even send are told as well.
#[tokio::test(start_paused = true)]
async fn who_waits_behind_a_stuck_server_is_told_in_time() {
    let (ours, _server) = duplex(4);
    let wire = Arc::new(Wire::new(ours, Ending::default()));
    let stuck = asks_within(&wire, Duration::from_secs(1), 0);
    while unanswered(&wire) == 0 {
        yield_now().await;
    }
    let behind = asks_within(&wire, Duration::from_secs(2), 0);
    assert!(matches!(stuck.await.expect("it ends"), Err(Unanswered::Late)));
    assert!(matches!(behind.await.expect("it ends"), Err(Unanswered::Late)));
}

/// What was never sent must not be taken for what may have happened.
#[tokio::test(start_paused = true)]
async fn who_finds_no_room_in_time_has_asked_nothing() {
    let (wire, mut server) = wire();
    // As long as a thousand others.
    let long = asks_within(&wire, Duration::from_mins(1), ROOM * ROOM_BYTES * 2);
    hears_pings(&mut server, 1).await;
    let crowded = asks_within(&wire, Duration::from_secs(1), 0);
    assert!(matches!(crowded.await.expect("it ends"), Err(Unanswered::Crowded)));
    assert!(wire.is_open(), "the server is not late");
    server.write_all(b":1\r\n").await.expect("written");
    assert_eq!(long.await.expect("it ends").expect("an answer"), Value::Int(1));
    assert_eq!(unanswered(&wire), 0);
}

#[tokio::test]
async fn who_waits_for_room_hears_that_it_broke() {
    let (wire, mut server) = wire();
    let _long = asks_within(&wire, Duration::from_mins(1), ROOM * ROOM_BYTES);
    hears_pings(&mut server, 1).await;
    let waiting = [0; 3].map(|_| asks_within(&wire, Duration::from_mins(1), 0));
    yield_now().await;
    drop(server);
    for waiting in waiting {
        assert!(matches!(waiting.await.expect("it ends"), Err(Unanswered::Broken(_))));
    }
}

/// I10: bytes that nobody asked for are not collected.
#[tokio::test]
async fn who_talks_without_being_asked_is_hung_up_on() {
    let (wire, mut server) = wire();
    server.write_all(b"$1000000\r\n").await.expect("written");
    // It fails at last, when nobody listens any more.
    while server.write_all(&[b'x'; 1_000]).await.is_ok() {
        yield_now().await;
    }
    assert!(!wire.is_open());
}

#[tokio::test]
async fn whoever_lets_go_of_it_hangs_up_on_a_silent_server() {
    let (wire, mut server) = wire();
    let asked = asks_within(&wire, Duration::from_mins(1), 0);
    hears_pings(&mut server, 1).await;
    asked.abort();
    assert!(asked.await.is_err());
    drop(wire);
    assert_eq!(server.read(&mut [0; 1]).await.expect("the end"), 0);
}

/// Many threads, many who give up, a stream that takes a few bytes at a time: everybody gets its own answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_gets_its_own_answer() {
    const EACH: u64 = 2_000;
    let (ours, theirs) = duplex(16);
    let wire = Arc::new(Wire::new(ours, Ending::default()));
    let server = tokio::spawn(echo(theirs));
    let asking: Vec<_> = (0..8_u64)
        .map(|task| {
            let wire = wire.clone();
            tokio::spawn(async move {
                for own in (0..EACH).map(|count| task * EACH + count) {
                    let write = |outbox: &mut Vec<u8>| {
                        begin(outbox, 1);
                        number(outbox, own);
                    };
                    let deadline = Instant::now() + Duration::from_mins(1);
                    let mut asked = Box::pin(wire.ask_until(deadline, 0, write));
                    if own % 3 == 0 {
                        // Polled once, and let go of.
                        let _ = polled_once(asked.as_mut()).await;
                        continue;
                    }
                    let expected = Value::BulkString(own.to_string().into_bytes());
                    assert_eq!(asked.await.expect("an answer"), expected);
                }
            })
        })
        .collect();
    for asking in asking {
        asking.await.expect("each its own");
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

/// Answers each question of one word with that word.
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
