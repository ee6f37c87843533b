//! One client.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::answered::Answered;
use super::target::{Body, Target};
use super::wire::Connection;
use super::{World, misbehave};
use crate::history::{Event, Purpose};
use crate::rng::Rng;

/// An operation is given up after this.
const OPERATION_LIMIT: Duration = Duration::from_mins(1);
/// How many operations a client has in mind at most.
const PENDING_MAX: usize = 24;
/// Of a hundred outcomes, how many are asked for again at once, and how often: most requests of a run are
/// replays, and all must be the same.
const REPLAYED_PERCENT: u64 = 30;
const REPLAYS_MAX: u64 = 16;
/// The final answer of one gateway must arrive by then; the checker has the time in which it should.
const READ_LIMIT: Duration = Duration::from_secs(20);
const READ_REQUEST_LIMIT: Duration = Duration::from_secs(5);

/// A client with a connection to each gateway that it keeps.
pub(super) struct Client {
    pub(super) world: Arc<World>,
    pub(super) rng: Rng,
    kept: Vec<Option<Connection>>,
    /// What is not known yet.
    pending: Vec<Operation>,
    touched: HashSet<Target>,
}

/// One thing that is to be done.
struct Operation {
    target: Target,
    /// The run was so old then.
    began: Duration,
    may_mismatch: bool,
}

// === impl Client ===

impl Client {
    pub(super) fn new(world: Arc<World>, number: u64) -> Self {
        let rng = Rng::of(world.seed, "client", number);
        let kept = world.gateways.iter().map(|_| None).collect();
        Self { world, rng, kept, pending: Vec::new(), touched: HashSet::new() }
    }

    pub(super) fn into_touched(self) -> HashSet<Target> {
        self.touched
    }

    /// Begins operations, and pursues those that are not done.
    pub(super) async fn work(&mut self) {
        while !self.world.is_over() {
            let pursues = self.rng.percent(50) && !self.pending.is_empty();
            if pursues || self.pending.len() >= PENDING_MAX {
                let operation = self.pending.swap_remove(self.rng.below(self.pending.len()));
                self.pursue(operation).await;
            } else {
                let operation = self.begin().await;
                self.pursue(operation).await;
            }
            self.rest(0, 16).await;
        }
    }

    async fn begin(&mut self) -> Operation {
        let number = self.world.next_operation.fetch_add(1, Ordering::Relaxed);
        // Not the client's generator: the number of its draws depends on the answers.
        let mut wants = Rng::of(self.world.seed, "operation", number);
        let target = Target::draw(number, &mut wants);
        self.touched.insert(target.clone());
        match wants.next_u64() % 100 {
            0..4 => misbehave::hang_up_in_request(self, &target).await,
            4..9 => misbehave::hang_up_in_reply(self, &target).await,
            9..14 => misbehave::ask_twice_at_once(self, &target).await,
            14..17 => misbehave::probe(self, &target).await,
            _ => (),
        }
        let began = self.world.history.clock().elapsed();
        Operation { target, began, may_mismatch: wants.percent(8) }
    }

    /// Tries again, anywhere; keeps it in mind unless all is known.
    async fn pursue(&mut self, mut operation: Operation) {
        let answered = self.attempt(&operation.target).await;
        if operation.may_mismatch && answered.shows_record() {
            operation.may_mismatch = false;
            let gateway = self.world.gateway(&mut self.rng);
            let limit = Duration::from_millis(800);
            self.send(&operation.target, Purpose::Mismatch, gateway, limit).await;
        }
        if answered == Answered::Outcome && self.rng.percent(REPLAYED_PERCENT) {
            for _ in 0..self.rng.between(1, REPLAYS_MAX) {
                self.attempt(&operation.target).await;
            }
        }
        let clock = self.world.history.clock();
        if !answered.is_final() && !clock.is_over(operation.began, OPERATION_LIMIT) {
            self.pending.push(operation);
        }
        match answered {
            Answered::Outcome | Answered::Unknown | Answered::InProgress => (),
            // Something is broken; there is no use in hurrying.
            _ => self.rest(10, 80).await,
        }
    }

    async fn attempt(&mut self, target: &Target) -> Answered {
        let limit = match self.rng.next_u64() % 100 {
            0..80 => 160,
            80..97 => 700,
            _ => 12_000,
        };
        let gateway = self.world.gateway(&mut self.rng);
        self.send(target, Purpose::Call, gateway, Duration::from_millis(limit)).await
    }

    /// True if there is time for last reads, which end at this age of the run.
    pub(super) fn may_read(&self, until: Duration) -> bool {
        self.world.history.clock().elapsed() < until && !crate::stop::is_stopped()
    }

    /// Requests the final answer of every gateway; returns that of the last.
    pub(super) async fn read(&mut self, target: &Target, until: Duration) -> Answered {
        let clock = self.world.history.clock();
        let mut answered = Answered::Nothing;
        for gateway in 0..self.world.gateways.len() {
            let until = until.min(clock.elapsed() + READ_LIMIT);
            while self.may_read(until) {
                answered = self.send(target, Purpose::Read, gateway, READ_REQUEST_LIMIT).await;
                // A refusal for its body is wrong here, and will not change.
                if answered.is_final() || answered == Answered::Mismatch {
                    break;
                }
                self.rest(20, 100).await;
            }
        }
        answered
    }

    /// One request, on the connection that is kept, if there is one.
    pub(super) async fn send(
        &mut self,
        target: &Target,
        purpose: Purpose,
        gateway: usize,
        limit: Duration,
    ) -> Answered {
        let body = match purpose {
            Purpose::Mismatch => Body::Wrong,
            _ if self.rng.percent(15) => Body::Respelled,
            _ => Body::Right,
        };
        let kept = self.kept[gateway].take();
        let asked = Asked { target, purpose, body, gateway, limit };
        let (answered, connection) = exchange(&self.world, &asked, kept).await;
        self.kept[gateway] = connection;
        answered
    }

    pub(super) async fn rest(&mut self, least: u64, most: u64) {
        sleep(Duration::from_millis(self.rng.between(least, most))).await;
    }
}

/// A request that is about to be sent.
pub(super) struct Asked<'a> {
    pub(super) target: &'a Target,
    pub(super) purpose: Purpose,
    pub(super) body: Body,
    pub(super) gateway: usize,
    pub(super) limit: Duration,
}

/// Writes down that a request is sent; its number.
pub(super) fn note_invoke(world: &World, target: &Target, purpose: Purpose, gateway: usize) -> u64 {
    let op = world.next_request.fetch_add(1, Ordering::Relaxed);
    let (scope, route, key) = (target.scope, target.route, target.key());
    world.history.note(Event::Invoke { op, purpose, gateway, scope, route, key });
    op
}

/// Sends a request and hears its answer; the connection, if it can be used again.
pub(super) async fn exchange(
    world: &World,
    asked: &Asked<'_>,
    kept: Option<Connection>,
) -> (Answered, Option<Connection>) {
    let op = note_invoke(world, asked.target, asked.purpose, asked.gateway);
    let request = asked.target.request(asked.body);
    let talk = async {
        let mut connection = match kept {
            Some(kept) => kept,
            None => Connection::open(world.gateways[asked.gateway]).await?,
        };
        connection.send(&request).await?;
        let answer = connection.answer().await?;
        std::io::Result::Ok((answer, connection))
    };
    let why = match timeout(asked.limit, talk).await {
        Ok(Ok((answer, connection))) => {
            let (answered, event) = Answered::of(&answer, op, world.seed);
            world.history.note(event);
            world.note_answered(asked.gateway, true);
            return (answered, answer.keeps_open().then_some(connection));
        }
        Ok(Err(error)) => error.kind().to_string(),
        Err(_) => format!("timeout {}", asked.limit.as_millis()),
    };
    world.note_answered(asked.gateway, false);
    world.history.note(Event::Info { op, why });
    (Answered::Nothing, None)
}
