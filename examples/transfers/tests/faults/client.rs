//! A client that retries an order until it has its result.

use std::fmt;
use std::time::{Duration, SystemTime};

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::fleet::Fleet;
use crate::load::ACCOUNTS;
use crate::support::{Answer, Call, NoAnswer, eventually};

/// Longer than any transaction takes that is not held up. Giving up early costs a retry and nothing
/// else.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(700);

/// An order; the same for all its senders.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) key: String,
    from: i64,
    to: i64,
    amount: i64,
}

/// The result of a try.
#[derive(Debug)]
pub(crate) enum TryResult {
    /// The result of the order.
    Final(Answer),
    /// Nothing was done for this request.
    Refused,
    /// Another attempt runs.
    Conflict,
    /// It may or may not have been done.
    Unsure,
    /// A response outside the contract.
    Nonsense(Answer),
}

/// How an order was brought to its end.
#[derive(Debug, Default)]
pub(crate) struct Story {
    pub(crate) requests: u64,
    pub(crate) refused: u64,
    pub(crate) conflicts: u64,
    pub(crate) unsure: u64,
    /// When a client got the answer that nothing was done, before it had any doubt.
    pub(crate) denied_ms: Option<u128>,
}

// === impl Order ===

impl Order {
    /// The order of this number, made from a seed.
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let from = random.random_range(0..ACCOUNTS);
        let to = (from + random.random_range(1..ACCOUNTS)) % ACCOUNTS;
        Self { key: format!("order-{number}"), from, to, amount: random.random_range(1..=600) }
    }

    fn call(&self) -> Call {
        let Self { key, from, to, amount } = self;
        let body = format!(
            r#"{{"from":"a{from}","to":"a{to}","amount":{amount},"currency":"EUR","reference":"{key}"}}"#
        );
        Call::post("/transfers", body).by("clients").key(key).within(ANSWER_TIMEOUT)
    }

    /// Sends it to some instance, once.
    pub(crate) fn send(&self, fleet: &Fleet) -> TryResult {
        let address = fleet.address(rand::random_range(0..fleet.len()));
        match self.call().send(address) {
            Ok(answer) => TryResult::of(answer),
            Err(NoAnswer::NotSent(_)) => TryResult::Refused,
            Err(NoAnswer::Unsure(_)) => TryResult::Unsure,
        }
    }

    /// Sends it until there is an answer.
    pub(crate) fn insist(&self, fleet: &Fleet, story: &mut Story) -> Answer {
        eventually(&self.key, || {
            story.requests += 1;
            match self.send(fleet) {
                TryResult::Final(answer) => return Some(answer),
                TryResult::Refused => story.deny(),
                TryResult::Conflict => story.conflicts += 1,
                TryResult::Unsure => story.unsure += 1,
                TryResult::Nonsense(answer) => panic!("{}: {answer:?}", self.key),
            }
            None
        })
    }
}

/// As the books have it.
impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}>a{}:{}", self.from, self.to, self.amount)
    }
}

// === impl TryResult ===

impl TryResult {
    fn of(answer: Answer) -> Self {
        match answer.status {
            201 | 402 => Self::Final(answer),
            409 if answer.code() == "request_in_progress" => Self::Conflict,
            503 if answer.code() == "idempotency_store_unavailable" => Self::Refused,
            500 if answer.code() == "execution_interrupted" => Self::Unsure,
            _ => Self::Nonsense(answer),
        }
    }
}

// === impl Story ===

impl Story {
    #[expect(
        clippy::disallowed_methods,
        reason = "compared with the server's clock, which is this"
    )]
    fn deny(&mut self) {
        self.refused += 1;
        if self.unsure == 0 && self.conflicts == 0 {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
            self.denied_ms = Some(now.expect("a moment after 1970").as_millis());
        }
    }
}
