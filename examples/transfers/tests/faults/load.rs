//! Many clients at once.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use semel_testserver::Postgres;
use serde_json::json;

use crate::answers::{Answers, Tally};
use crate::books;
use crate::client::{Order, Story};
use crate::fleet::{Fleet, lock};
use crate::support::{Call, eventually};

pub(crate) const ACCOUNTS: i64 = 24;
/// Little enough for some orders to be declined.
const DEPOSIT: i64 = 1_000;
const TOTAL: i64 = ACCOUNTS * DEPOSIT;
const CLIENTS: usize = 16;
/// So many orders are brought to their end between two harms.
const PROGRESS: u64 = 40;
/// So many are asked about again in the end.
const ASKED_AGAIN: usize = 200;

pub(crate) struct Load<'a> {
    server: &'a Postgres,
    fleet: &'a Fleet,
    seed: u64,
    next: AtomicU64,
    done: AtomicU64,
    stopping: AtomicBool,
    answers: Answers,
    tally: Mutex<Tally>,
}

/// Has clients send orders while `harm` is done so many times; then checks everything.
pub(crate) fn under_load(
    server: &Postgres,
    fleet: &Fleet,
    rounds: usize,
    harm: impl Fn(&Load<'_>, usize),
) {
    let load = Load::new(server, fleet);
    load.open_accounts();
    let harmed = thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|_| scope.spawn(|| load.client())).collect();
        // Whatever goes wrong, the clients must stop.
        let harmed = catch_unwind(AssertUnwindSafe(|| load.suffer(rounds, harm)));
        load.stopping.store(true, Ordering::Relaxed);
        for client in clients {
            client.join().unwrap_or_else(|panic| resume_unwind(panic));
        }
        harmed
    });
    harmed.unwrap_or_else(|panic| resume_unwind(panic));
    load.check();
}

// === impl Load ===

impl<'a> Load<'a> {
    fn new(server: &'a Postgres, fleet: &'a Fleet) -> Self {
        Self {
            server,
            fleet,
            seed: rand::random(),
            next: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            answers: Answers::default(),
            tally: Mutex::default(),
        }
    }

    fn open_accounts(&self) {
        for number in 0..ACCOUNTS {
            let body = json!({ "id": format!("a{number}"), "currency": "EUR", "deposit": DEPOSIT });
            let call = Call::post("/accounts", body.to_string());
            let call = call.by("teller").key(&format!("open-{number}"));
            let opened = call.send(self.fleet.address(0)).expect("an answer");
            assert_eq!(opened.status, 201, "{opened:?}");
        }
    }

    fn suffer(&self, rounds: usize, harm: impl Fn(&Self, usize)) {
        for round in 0.. {
            // Not before the last is overcome: each must meet the bank at work.
            self.wait_for_progress();
            // And one at least must leave a client in doubt.
            if round >= rounds && lock(&self.tally).unsure > 0 {
                break;
            }
            assert!(round < rounds * 10, "no request was met: {}", lock(&self.tally));
            harm(self, round);
            lock(&self.tally).harms += 1;
            books::check(self.server, TOTAL);
        }
    }

    /// Every other order is sent by two clients at once.
    fn client(&self) {
        while !self.stopping.load(Ordering::Relaxed) {
            let ticket = self.next.fetch_add(1, Ordering::Relaxed);
            let is_alone = ticket.is_multiple_of(3);
            let order = Order::new(self.seed, ticket / 3 * 2 + u64::from(!is_alone));
            self.bring_to_its_end(&order, is_alone);
            self.done.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn bring_to_its_end(&self, order: &Order, is_alone: bool) {
        let mut story = Story::default();
        let answer = order.insist(self.fleet, &mut story);
        self.answers.take(order, &story, is_alone, answer);
        // Some are nervous, and ask once more.
        if rand::random_bool(0.2) {
            let answer = order.insist(self.fleet, &mut story);
            self.answers.take(order, &story, is_alone, answer);
        }
        lock(&self.tally).add(&story);
    }

    /// Blocks until the clients have got on.
    pub(crate) fn wait_for_progress(&self) {
        let until = self.done.load(Ordering::Relaxed) + PROGRESS;
        eventually("orders come to their end", || {
            (self.done.load(Ordering::Relaxed) >= until).then_some(())
        });
    }

    fn check(&self) {
        books::check(self.server, TOTAL);
        self.answers.check(self.server);
        self.answers.check_replays(self.fleet, ASKED_AGAIN);
        let mut tally = lock(&self.tally);
        self.answers.count(&mut tally);
        println!("{}: {tally}", thread::current().name().unwrap_or_default());
    }
}
