use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Wake;

use super::*;

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn get(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A hearing that has been polled once, with the count of its wake-ups.
fn waiting(herald: &Herald) -> (Pin<Box<Hearing>>, Arc<Count>) {
    let (mut hearing, count) = (Box::pin(herald.hearing()), Arc::new(Count::default()));
    assert!(poll(&mut hearing, &count).is_pending());
    (hearing, count)
}

fn poll(hearing: &mut Pin<Box<Hearing>>, count: &Arc<Count>) -> Poll<Fate> {
    hearing.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

fn heard_durable(poll: &Poll<Fate>) -> bool {
    matches!(poll, Poll::Ready(Fate::Durable))
}

#[test]
fn one_is_woken_and_wakes_the_others_of_its_thread() {
    let herald = Herald::default();
    let mut waiters: Vec<_> = (0..5).map(|_| waiting(&herald)).collect();
    let counts: Vec<_> = waiters.iter().map(|(_, count)| Arc::clone(count)).collect();
    let woken = || counts.iter().map(|count| count.get()).collect::<Vec<_>>();
    herald.say(Fate::Durable);
    assert_eq!(woken(), [1, 0, 0, 0, 0]);
    let (first, count) = &mut waiters[0];
    assert!(heard_durable(&poll(first, count)));
    assert_eq!(woken(), [1, 1, 1, 1, 1]);
    for (hearing, count) in &mut waiters[1..] {
        assert!(heard_durable(&poll(hearing, count)));
    }
    assert_eq!(woken(), [1, 1, 1, 1, 1]);
}

#[test]
fn each_thread_is_woken() {
    let herald = Herald::default();
    let (_here, count) = waiting(&herald);
    let (_there, elsewhere) =
        thread::scope(|scope| scope.spawn(|| waiting(&herald)).join().unwrap());
    herald.say(Fate::Durable);
    assert_eq!((count.get(), elsewhere.get()), (1, 1));
}

#[test]
fn who_leaves_after_being_woken_wakes_the_others() {
    let herald = Herald::default();
    let (first, _) = waiting(&herald);
    let (_second, count) = waiting(&herald);
    herald.say(Fate::Durable);
    assert_eq!(count.get(), 0);
    drop(first);
    assert_eq!(count.get(), 1);
}

/// One who was woken and is then neither polled nor dropped must not hold up the others for ever.
#[test]
fn the_next_group_wakes_those_who_are_held_up() {
    let mut heralds = Heralds::default();
    let (herald, next) = (heralds.next(), heralds.next());
    let (stuck, _) = waiting(&herald);
    let (mut held_up, count) = waiting(&herald);
    herald.say(Fate::Durable);
    assert_eq!(count.get(), 0, "it trusts the first one to pass the word on");
    next.say(Fate::Durable);
    assert_eq!(count.get(), 1);
    assert!(heard_durable(&poll(&mut held_up, &count)));
    drop(stuck);
}

/// A group may be given up while the one before it is still being written.
#[test]
fn those_whose_fate_is_open_are_left_alone() {
    let mut heralds = Heralds::default();
    let (herald, next) = (heralds.next(), heralds.next());
    let (mut waiter, count) = waiting(&herald);
    next.say(Fate::Refused("full".into()));
    assert_eq!(count.get(), 0);
    herald.say(Fate::Durable);
    assert_eq!(count.get(), 1);
    assert!(heard_durable(&poll(&mut waiter, &count)));
}

#[test]
fn who_leaves_before_is_not_counted_on() {
    let herald = Herald::default();
    let (first, _) = waiting(&herald);
    let (_second, count) = waiting(&herald);
    drop(first);
    herald.say(Fate::Durable);
    assert_eq!(count.get(), 1);
}

#[test]
fn a_waiter_that_moved_is_woken_where_it_is_now() {
    let herald = Herald::default();
    let (mut moved, count) = waiting(&herald);
    let (_stays, stays) = waiting(&herald);
    thread::scope(|scope| {
        scope.spawn(|| assert!(poll(&mut moved, &count).is_pending())).join().unwrap();
    });
    herald.say(Fate::Durable);
    assert_eq!((count.get(), stays.get()), (1, 1));
}

#[test]
fn a_herald_that_leaves_without_a_word_is_heard_too() {
    let herald = Herald::default();
    let (mut hearing, count) = waiting(&herald);
    drop(herald);
    assert_eq!(count.get(), 1);
    assert!(matches!(poll(&mut hearing, &count), Poll::Ready(Fate::Orphaned)));
}

#[test]
fn who_comes_late_hears_at_once() {
    let herald = Herald::default();
    let mut late = pin!(herald.hearing());
    herald.say(Fate::Refused("full".into()));
    let waker = Waker::from(Arc::new(Count::default()));
    let heard = late.as_mut().poll(&mut Context::from_waker(&waker));
    assert!(matches!(heard, Poll::Ready(Fate::Refused(what)) if &*what == "full"));
}
