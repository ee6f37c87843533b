//! Trap 24: log lines about an attempt name its record by a prefix, and contain nothing else of it.

use std::time::Duration;

use semel_core::OnStoreDown;

use crate::support::{
    Effect, Fault, LEASE, Logs, RECORD, Verb, completed, conflict, engine_over, memory, never,
    once, policy, spawn_once,
};

#[tokio::test(start_paused = true)]
async fn events_name_the_record_by_its_prefix_and_contain_no_secrets() {
    let logs = Logs::of_this_thread();
    let memory = memory();
    let ((first, store), (second, _)) = (engine_over(&memory), engine_over(&memory));

    // A takeover, whose refusal carries a recorded reply; a loss of the store; a panic.
    let slow = Effect::gated();
    let late = spawn_once(&first, &conflict(), slow.work(completed("secret 1")));
    slow.started().await;
    store.fail([Verb::Renew], Fault::Unavailable);
    tokio::time::sleep(LEASE * 2).await;
    let work = Effect::new().work(completed("secret 2"));
    once(&second, &conflict(), work).await.unwrap();
    slow.finish();
    late.await.unwrap().unwrap();
    store.fail_all(Fault::Unavailable);
    assert!(once(&first, &conflict(), never).await.is_err());

    let text = logs.text();
    assert!(text.contains("the lease ran out"), "{text}");
    assert!(text.contains("the lease was lost"), "{text}");
    assert!(text.contains("answer=\"executed\""), "{text}");
    assert!(text.contains("answer=\"replayed\""), "{text}");
    assert!(text.contains("refused"), "{text}");
    assert!(text.lines().all(|line| line.contains(&RECORD.prefix())), "{text}");
    assert!(!text.contains(&RECORD.to_string()), "{text}");
    assert!(!text.contains("secret"), "{text}");
}

/// An outage writes a line per second and kind, however many attempts it refuses, and the numbers add up.
#[tokio::test(start_paused = true)]
async fn an_outage_writes_few_lines_with_exact_counts() {
    let logs = Logs::of_this_thread();
    let (engine, store) = engine_over(&memory());
    store.fail_all(Fault::Unavailable);
    let open = policy().on_store_down(OnStoreDown::Open).build().unwrap();
    let (seconds, per_second, pause) = (5, 200, Duration::from_millis(5));
    for _ in 0..seconds * per_second {
        assert!(once(&engine, &conflict(), never).await.is_err());
        once(&engine, &open, |_| async { completed("done") }).await.unwrap();
        tokio::time::sleep(pause).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    for (kind, message) in [
        ("refused: store", "message=refused"),
        ("executing without protection", "message=executing without protection"),
        ("answered without protection", "message=answered record"),
    ] {
        let text = logs.text();
        let lines = |of: &str| text.lines().filter(|line| line.contains(of)).count();
        let summaries = lines(&format!("of=\"{kind}\""));
        let written = lines(message);
        assert!(written + summaries <= seconds + 2, "{kind}: {written} + {summaries}\n{text}");
        let about =
            |line: &&str| line.contains(message) || line.contains(&format!("of=\"{kind}\""));
        let sum: usize = text.lines().filter(about).map(left_out).sum();
        assert_eq!(written + sum, seconds * per_second, "{kind}\n{text}");
    }
}

/// How many lines were left out before this one.
fn left_out(line: &str) -> usize {
    let Some((_, rest)) = line.split_once("left_out=") else { return 0 };
    rest.split(' ').next().unwrap().parse().unwrap()
}
