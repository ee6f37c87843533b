//! Trap 24: what the engine says about an attempt names its record by a prefix, and nothing else.

use std::fmt::{self, Write as _};
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber, span};

use crate::support::{
    Effect, Fault, LEASE, RECORD, Verb, completed, conflict, engine_over, memory, never, once,
    spawn_once,
};

/// Keeps every event as text.
#[derive(Clone, Default)]
struct Kept(Arc<Mutex<String>>);

impl Subscriber for Kept {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("semel_engine")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut kept = self.0.lock().unwrap();
        event.record(&mut Fields(&mut kept));
        kept.push('\n');
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Fields<'a>(&'a mut String);

impl Visit for Fields<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn events_name_the_record_by_its_prefix_and_tell_no_secrets() {
    let kept = Kept::default();
    let _kept_for_this_thread = tracing::subscriber::set_default(kept.clone());
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

    let said = kept.0.lock().unwrap().clone();
    assert!(said.contains("the lease ran out"), "{said}");
    assert!(said.contains("the lease was lost"), "{said}");
    assert!(said.contains("answer=\"executed\""), "{said}");
    assert!(said.contains("answer=\"replayed\""), "{said}");
    assert!(said.contains("refused"), "{said}");
    assert!(said.lines().all(|line| line.contains(&RECORD.prefix())), "{said}");
    assert!(!said.contains(&RECORD.to_string()), "{said}");
    assert!(!said.contains("secret"), "{said}");
}
