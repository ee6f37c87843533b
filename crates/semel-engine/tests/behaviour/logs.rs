//! Trap 24: what the engine says about an attempt names its record by a prefix, and nothing else.

use crate::support::{
    Effect, Fault, LEASE, Logs, RECORD, Verb, completed, conflict, engine_over, memory, never,
    once, spawn_once,
};

#[tokio::test(start_paused = true)]
async fn events_name_the_record_by_its_prefix_and_tell_no_secrets() {
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

    let said = logs.text();
    assert!(said.contains("the lease ran out"), "{said}");
    assert!(said.contains("the lease was lost"), "{said}");
    assert!(said.contains("answer=\"executed\""), "{said}");
    assert!(said.contains("answer=\"replayed\""), "{said}");
    assert!(said.contains("refused"), "{said}");
    assert!(said.lines().all(|line| line.contains(&RECORD.prefix())), "{said}");
    assert!(!said.contains(&RECORD.to_string()), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
