//! The answers to clients, by key, and whether they were true.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

use semel_testserver::Postgres;

use crate::books::{self, Booked};
use crate::client::{Order, Story};
use crate::fleet::{Fleet, lock};
use crate::support::Answer;

/// All answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    orders: Mutex<BTreeMap<String, Ending>>,
}

/// The result of one order, by all answers.
#[derive(Debug)]
struct Ending {
    order: Order,
    answer: Answer,
    /// How many answers were no replays.
    executed: u32,
    replayed: u32,
    /// The order was sent by one client alone, which got the answer that nothing was done.
    denied_ms: Option<u128>,
}

/// What happened, for people to read.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) harms: u64,
    pub(crate) requests: u64,
    pub(crate) unsure: u64,
    pub(crate) refused: u64,
    pub(crate) conflicts: u64,
    pub(crate) acknowledged: u64,
    pub(crate) declined: u64,
    pub(crate) replays: u64,
    /// The first answer was lost after the commit.
    pub(crate) unanswered: u64,
}

// === impl Answers ===

impl Answers {
    /// Takes an answer down. It must be the same as all before, and at most one says that it is the
    /// first (I4).
    pub(crate) fn take(&self, order: &Order, story: &Story, is_alone: bool, answer: Answer) {
        let is_replay = answer.is_replay();
        let answer = answer.essence();
        let mut orders = lock(&self.orders);
        let ending = orders.entry(order.key.clone()).or_insert_with(|| Ending {
            order: order.clone(),
            answer: answer.clone(),
            executed: 0,
            replayed: 0,
            denied_ms: story.denied_ms.filter(|_| is_alone),
        });
        assert_eq!(ending.answer, answer, "I4: {} got two answers", order.key);
        let count = if is_replay { &mut ending.replayed } else { &mut ending.executed };
        *count += 1;
        assert!(ending.executed <= 1, "{} was executed twice", order.key);
    }

    /// Compares the books with the answers.
    pub(crate) fn check(&self, server: &Postgres) {
        let mut booked = books::transfers(server);
        for (key, ending) in &*lock(&self.orders) {
            ending.check(key, &booked.remove(key).unwrap_or_default());
        }
        assert!(booked.is_empty(), "booked without an answer: {booked:?}");
    }

    /// Requests orders again that were done long ago.
    pub(crate) fn check_replays(&self, fleet: &Fleet, count: usize) {
        let orders = lock(&self.orders);
        for ending in orders.values().step_by((orders.len() / count).max(1)) {
            let answer = ending.order.insist(fleet, &mut Story::default());
            assert!(answer.is_replay(), "{} was executed again: {answer:?}", ending.order.key);
            assert_eq!(answer.essence(), ending.answer, "I4: {}", ending.order.key);
        }
    }

    /// Adds what it knows to a tally.
    pub(crate) fn count(&self, tally: &mut Tally) {
        for ending in lock(&self.orders).values() {
            let is_acknowledged = ending.answer.status == 201;
            tally.acknowledged += u64::from(is_acknowledged);
            tally.declined += u64::from(!is_acknowledged);
            tally.replays += u64::from(ending.replayed);
            tally.unanswered += u64::from(ending.executed == 0);
        }
    }
}

// === impl Ending ===

impl Ending {
    fn check(&self, key: &str, booked: &[Booked]) {
        let (acknowledged, there) = (u16::from(self.answer.status == 201), booked.len());
        assert_eq!(usize::from(acknowledged), there, "{key} was answered {self:?}, is {booked:?}");
        let Some(booked) = booked.first() else { return };
        assert_eq!(booked.id, self.answer.id(), "{key}");
        assert_eq!(booked.order, self.order.to_string(), "{key}");
        // "Nothing was executed", and yet it was.
        let denied_ms = self.denied_ms.unwrap_or_default();
        assert!(booked.created_ms >= denied_ms, "{key} was denied at {denied_ms}: {booked:?}");
    }
}

// === impl Tally ===

impl Tally {
    pub(crate) fn add(&mut self, story: &Story) {
        self.requests += story.requests;
        self.unsure += story.unsure;
        self.refused += story.refused;
        self.conflicts += story.conflicts;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { harms, requests, unsure, refused, conflicts, .. } = self;
        let Self { acknowledged, declined, replays, unanswered, .. } = self;
        write!(
            f,
            "{harms} harms; {requests} requests: {unsure} unsure, {refused} refused, {conflicts} in \
             flight; {acknowledged} transfers, {declined} declined; {replays} replays, {unanswered} first \
             answers lost",
        )
    }
}
