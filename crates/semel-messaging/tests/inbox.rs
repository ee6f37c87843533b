//! The inbox over a store: what a delivery becomes, and how often its work is done.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::{OnAbandoned, OnUnknown, Policy};
use semel_engine::Engine;
use semel_messaging::{EventId, Failure, Handled, Inbox, InboxRules, Message};
use semel_store::MemoryStore;
use semel_store::scripted::{Fault, ScriptedStore};

fn message(id: &str) -> Message {
    Message::new(EventId::parse(id).unwrap(), "an order")
}

fn inbox(policy: Policy) -> Inbox {
    let rules = InboxRules { policy, attempts_max: 3, ..InboxRules::default() };
    Inbox::new(Engine::new(MemoryStore::new()), "mailer").rules(rules)
}

/// Counts how often the work is done, and ends as the test says.
#[derive(Clone, Default)]
struct Effect(Arc<AtomicU64>);

impl Effect {
    fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// One delivery, whose handler returns this.
    async fn deliver(
        &self,
        inbox: &Inbox,
        message: &Message,
        result: impl FnOnce() -> Result<(), Failure> + Send + 'static,
    ) -> Handled {
        let effect = self.clone();
        let work = move |_| async move {
            effect.0.fetch_add(1, Ordering::SeqCst);
            result()
        };
        inbox.once(message, "email", work).await
    }
}

fn later() -> Result<(), Failure> {
    Err(std::io::Error::other("the server is busy").into())
}

#[tokio::test]
async fn a_redelivery_is_a_duplicate() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    assert_eq!(effect.deliver(&inbox, &message("e"), || Ok(())).await, Handled::Done);
    for deliveries in 2..5 {
        let again = message("e").deliveries(deliveries);
        assert_eq!(effect.deliver(&inbox, &again, || Ok(())).await, Handled::Duplicate);
    }
    assert_eq!(effect.count(), 1);
}

/// An e-mail and an SMS of one event are two pieces of work, and so are those of two consumers.
#[tokio::test]
async fn channels_and_consumers_are_apart() {
    let engine = Engine::new(MemoryStore::new());
    let count = Effect::default();
    for consumer in ["mailer", "audit"] {
        let inbox = Inbox::new(engine.clone(), consumer);
        for channel in ["email", "sms"] {
            let effect = count.clone();
            let work = move |_| async move {
                effect.0.fetch_add(1, Ordering::SeqCst);
                Ok(())
            };
            assert_eq!(inbox.once(&message("e"), channel, work).await, Handled::Done);
        }
    }
    assert_eq!(count.count(), 4);
}

#[tokio::test]
async fn another_payload_under_a_used_id_is_dead_and_not_handled() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    effect.deliver(&inbox, &message("e"), || Ok(())).await;
    let other = Message::new(EventId::parse("e").unwrap(), "another order");
    let Handled::Dead(reason) = effect.deliver(&inbox, &other, || Ok(())).await else { panic!() };
    assert!(reason.contains("another payload"), "{reason}");
    assert_eq!(effect.count(), 1);
}

#[tokio::test]
async fn a_failure_comes_again_with_growing_pauses_and_is_dead_after_the_last_attempt() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    let pauses = [1, 2].map(Duration::from_secs);
    for pause in pauses {
        let handled = effect.deliver(&inbox, &message("e"), later).await;
        assert_eq!(handled, Handled::Later(pause));
        assert!(!handled.is_acknowledged());
    }
    for _ in 0..2 {
        let Handled::Dead(reason) = effect.deliver(&inbox, &message("e"), later).await else {
            panic!("not dead")
        };
        assert_eq!(reason, "the server is busy (attempt 3, the last)");
    }
    assert_eq!(effect.count(), 3, "a dead message is not handled again");
}

/// A broker that counts deliveries knows more than the record, which a message that never reached a handler lacks.
#[tokio::test]
async fn deliveries_count_as_attempts() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    let worn = message("e").deliveries(3);
    assert!(matches!(effect.deliver(&inbox, &worn, later).await, Handled::Dead(_)));
}

#[tokio::test]
async fn a_handler_can_give_up_at_once() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    let give_up = || Err(Failure::Dead("no such address".to_owned()));
    let dead = Handled::Dead("no such address".to_owned());
    assert_eq!(effect.deliver(&inbox, &message("e"), give_up).await, dead);
    assert_eq!(effect.deliver(&inbox, &message("e"), || Ok(())).await, dead);
    assert!(dead.is_acknowledged());
    assert_eq!(effect.count(), 1);
}

#[tokio::test]
async fn an_unknown_outcome_is_held_or_comes_again_by_the_policy() {
    let unknown = || Err(Failure::Unknown("no answer to the last dot".to_owned()));
    let policy = Policy::builder().on_unknown(OnUnknown::Hold).build().unwrap();
    let (held, effect) = (inbox(policy), Effect::default());
    for _ in 0..3 {
        assert_eq!(effect.deliver(&held, &message("e"), unknown).await, Handled::Unknown);
    }
    assert_eq!(effect.count(), 1, "a held message is not handled again");

    let (released, effect) = (inbox(Policy::default()), Effect::default());
    let handled = effect.deliver(&released, &message("e"), unknown).await;
    assert_eq!(handled, Handled::Later(Duration::from_secs(1)));
    assert_eq!(effect.deliver(&released, &message("e"), || Ok(())).await, Handled::Done);
}

/// A panic may have come after the effect.
#[tokio::test]
async fn a_handler_that_panics_is_held_where_unknown_outcomes_are() {
    let hold = Policy::builder().on_unknown(OnUnknown::Hold).on_abandoned(OnAbandoned::Hold);
    let (inbox, effect) = (inbox(hold.build().unwrap()), Effect::default());
    let handled = effect.deliver(&inbox, &message("e"), || panic!("a bug")).await;
    assert_eq!(handled, Handled::Unknown);
    assert_eq!(effect.deliver(&inbox, &message("e"), || Ok(())).await, Handled::Unknown);
    assert_eq!(effect.count(), 1);
}

#[tokio::test]
async fn a_message_in_work_elsewhere_comes_again() {
    let (inbox, effect) = (inbox(Policy::default()), Effect::default());
    let (started, running) = tokio::sync::oneshot::channel::<()>();
    let (finish, finished) = tokio::sync::oneshot::channel::<()>();
    let first = {
        let inbox = inbox.clone();
        tokio::spawn(async move {
            let work = move |_| async move {
                let _ = started.send(());
                let _ = finished.await;
                Ok(())
            };
            inbox.once(&message("e"), "email", work).await
        })
    };
    running.await.unwrap();
    let handled = effect.deliver(&inbox, &message("e"), || Ok(())).await;
    assert!(matches!(handled, Handled::Later(_)), "{handled:?}");
    finish.send(()).unwrap();
    assert_eq!(first.await.unwrap(), Handled::Done);
    assert_eq!(effect.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_costs_no_message() {
    let store = Arc::new(ScriptedStore::over(MemoryStore::new()));
    let inbox = Inbox::new(Engine::new(store.clone()), "mailer");
    let effect = Effect::default();
    store.fail_all(Fault::Unavailable);
    let handled = effect.deliver(&inbox, &message("e"), || Ok(())).await;
    assert!(matches!(handled, Handled::Later(_)), "{handled:?}");
    assert_eq!(effect.count(), 0);
    store.mend();
    assert_eq!(effect.deliver(&inbox, &message("e"), || Ok(())).await, Handled::Done);
}

#[tokio::test]
async fn the_fence_reaches_the_handler_and_rises() {
    let inbox = inbox(Policy::default());
    for fence in 1..=2 {
        let work = move |execution: semel_engine::Execution| async move {
            assert_eq!(execution.fence().unwrap().get(), fence);
            later()
        };
        assert!(matches!(inbox.once(&message("e"), "email", work).await, Handled::Later(_)));
    }
}
