//! The way from a node to the store and back, and what can happen on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Owner, Policy, Record, RecordId, Release, Settlement};
use semel_store::{
    Clock as _, Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch,
};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::disk::{ClaimSent, LeaseSent};
use crate::plan::LATE_MAX;
use crate::server::Server;
use crate::trace::Source;
use crate::world::World;
use crate::{Fault, Mistake};

/// A node's line to the store. Each way can be cut.
#[derive(Debug, Default)]
pub(crate) struct Line {
    requests_cut: AtomicUsize,
    answers_cut: AtomicUsize,
}

/// The store as a node sees it.
pub(crate) struct RemoteStore {
    world: World,
    server: Arc<Server>,
    line: Arc<Line>,
    node: usize,
}

/// How one verb is delivered.
#[derive(Clone, Copy, Debug)]
struct Delivery {
    fault: Option<Fault>,
    there: Duration,
    back: Duration,
    /// When it arrives once more.
    again: Option<Duration>,
    /// Whether the caller of a lost verb gets a connection error. Otherwise it gets no answer.
    is_told: bool,
}

// === impl Line ===

impl Line {
    pub(crate) fn cut(&self, requests: bool, answers: bool) {
        self.requests_cut.fetch_add(usize::from(requests), Ordering::Relaxed);
        self.answers_cut.fetch_add(usize::from(answers), Ordering::Relaxed);
    }

    pub(crate) fn mend(&self, requests: bool, answers: bool) {
        self.requests_cut.fetch_sub(usize::from(requests), Ordering::Relaxed);
        self.answers_cut.fetch_sub(usize::from(answers), Ordering::Relaxed);
    }

    fn lets_requests_pass(&self) -> bool {
        self.requests_cut.load(Ordering::Relaxed) == 0
    }

    fn lets_answers_pass(&self) -> bool {
        self.answers_cut.load(Ordering::Relaxed) == 0
    }
}

// === impl RemoteStore ===

impl RemoteStore {
    pub(crate) fn new(world: World, server: Arc<Server>, line: Arc<Line>, node: usize) -> Self {
        Self { world, server, line, node }
    }

    /// Sends a verb on its way. The way does not end with the caller: a verb that was sent arrives
    /// though its caller no longer waits.
    fn call<T: Send + 'static>(
        &self,
        verb: &'static str,
        apply: impl Fn(&Server) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> StoreFuture<'_, T> {
        Box::pin(async move {
            let delivery = Delivery::draw(&self.world);
            if let Some(fault) = delivery.fault {
                self.world.fault(fault, Some(self.node), delivery.there + delivery.back);
                self.world.note(Source::Node(self.node), format_args!("{verb}: {fault}"));
            }
            match delivery.fault {
                Some(Fault::Refused) => Err(StoreError::unavailable("refused")),
                Some(Fault::Damaged) => Err(StoreError::Corrupt { what: "simulated".to_owned() }),
                _ => match self.post(delivery, apply).await {
                    Ok(answer) => answer,
                    // Nothing comes back, ever.
                    Err(_) => std::future::pending().await,
                },
            }
        })
    }

    fn post<T: Send + 'static>(
        &self,
        delivery: Delivery,
        apply: impl Fn(&Server) -> Result<T, StoreError> + Send + Sync + 'static,
    ) -> oneshot::Receiver<Result<T, StoreError>> {
        let (sender, answer) = oneshot::channel();
        let (server, line) = (self.server.clone(), self.line.clone());
        tokio::spawn(async move {
            let answered = travel(delivery, &server, &line, &apply).await;
            // Its caller knows the result of the first copy, and expects no other.
            let is_definite = match &answered {
                Some(Err(error)) => !error.maybe_applied(),
                Some(Ok(_)) => true,
                None => false,
            };
            let is_heard = answered.is_some_and(|answered| sender.send(answered).is_ok());
            if let Some(again) = delivery.again {
                sleep(again).await;
                if line.lets_requests_pass() && !server.is_down() {
                    let _ = server.once_more(is_heard && is_definite, || apply(&server));
                }
            }
        });
        answer
    }
}

/// A round trip. `None` if the caller gets no answer.
async fn travel<T>(
    delivery: Delivery,
    server: &Server,
    line: &Line,
    apply: &impl Fn(&Server) -> Result<T, StoreError>,
) -> Option<Result<T, StoreError>> {
    let cut_off = || delivery.is_told.then(|| Err(broken("the connection broke")));
    sleep(delivery.there).await;
    if delivery.fault == Some(Fault::RequestLost) || !line.lets_requests_pass() {
        return cut_off();
    }
    if delivery.fault == Some(Fault::Late) && server.is_down() {
        // It is sent again until it arrives, which is as soon as the server is back.
        let left = LATE_MAX.saturating_sub(delivery.there);
        let _ = timeout(left, server.back()).await;
    }
    if server.is_down() {
        return (!server.hangs()).then(|| Err(StoreError::unavailable("the server is down")));
    }
    let start = server.start();
    let answer = apply(server);
    sleep(delivery.back).await;
    let is_lost = delivery.fault == Some(Fault::AnswerLost) || !line.lets_answers_pass();
    if is_lost || server.start() != start { cut_off() } else { Some(answer) }
}

/// By mistake, as if another process had its lease.
fn of_another(mut record: Record) -> Record {
    record.owner = Owner::from_u128(record.owner.as_u128() ^ 1);
    record
}

fn broken(what: &str) -> StoreError {
    StoreError::TimedOut { what: what.to_owned(), source: None }
}

// === impl Delivery ===

impl Delivery {
    fn draw(world: &World) -> Self {
        let (odds, is_calm) = (world.plan().odds, world.is_calm());
        world.draw(|random| {
            let way = |from: u64, to: u64| (Duration::from_millis(from), Duration::from_millis(to));
            let (shortest, longest) = if random.chance(800) { way(0, 3) } else { way(1, 12) };
            let (there, back) =
                (random.between(shortest, longest), random.between(shortest, longest));
            let usual = Self { fault: None, there, back, again: None, is_told: true };
            if is_calm {
                return usual;
            }
            let is_told = random.chance(500);
            let mut left = random.below(1_000);
            let mut strikes = |odds: u64| {
                let strikes = left < odds;
                left = if strikes { u64::MAX } else { left - odds };
                strikes
            };
            let fault = [
                (odds.request_lost, Fault::RequestLost),
                (odds.answer_lost, Fault::AnswerLost),
                (odds.refused, Fault::Refused),
                (odds.late, Fault::Late),
                (odds.duplicated, Fault::Duplicated),
                (odds.damaged, Fault::Damaged),
            ]
            .into_iter()
            .find_map(|(odds, fault)| strikes(odds).then_some(fault));
            let late = random.pick([100, 1_000, 5_000, 25_000]);
            let late = random.between(Duration::ZERO, Duration::from_millis(late).min(LATE_MAX));
            match fault {
                Some(Fault::Late) if random.chance(500) => {
                    Self { fault, there: there + late, is_told, ..usual }
                }
                Some(Fault::Late) => Self { fault, back: back + late, is_told, ..usual },
                Some(Fault::Duplicated) => Self { fault, again: Some(late), is_told, ..usual },
                _ => Self { fault, is_told, ..usual },
            }
        })
    }
}

impl Store for RemoteStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        let sent = ClaimSent::new(attempt, policy);
        self.call("claim", move |server| server.claim(&sent))
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        self.server.watch(self.node, id).map(|state| Watch::new(state, ()))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        let sent = LeaseSent::new(lease);
        self.call("renew", move |server| server.renew(sent, duration))
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        let sent = LeaseSent::new(lease);
        let call = self.call("settle", move |server| server.settle(sent, &settlement));
        if self.world.has(Mistake::SettledTooEarly) {
            return Box::pin(async move {
                let mut call = call;
                // Sent, and not waited for.
                std::future::poll_fn(|context| {
                    let _ = call.as_mut().poll(context);
                    std::task::Poll::Ready(())
                })
                .await;
                Ok(Settled::Recorded)
            });
        }
        call
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        let sent = LeaseSent::new(lease);
        self.call("release", move |server| server.release(sent, how))
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        let is_blind = self.world.has(Mistake::DoubtForgotten);
        let is_for_foreign = self.world.has(Mistake::SuccessorUnseen);
        let (world, node) = (self.world.clone(), self.node);
        self.call("inspect", move |server| {
            let is_seen = |record: &Record| {
                let is_unacknowledged =
                    |owner| world.query(|oracle, _| oracle.is_unacknowledged(id, owner, node));
                !is_blind || !is_unacknowledged(record.owner)
            };
            let record = server.inspect(id)?.filter(is_seen);
            let is_mistaken =
                is_for_foreign && world.query(|oracle, _| oracle.is_waited_for(id, node));
            Ok(record.map(|record| if is_mistaken { of_another(record) } else { record }))
        })
    }

    fn sweep(&self, _limit: usize) -> StoreFuture<'_, Swept> {
        // The server sweeps by itself.
        Box::pin(async { Ok(Swept { deleted: 0, more: false }) })
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        let now = self.world.clock().now();
        Box::pin(async move { Ok(Health { now, kind: "simulated", note: None }) })
    }
}
