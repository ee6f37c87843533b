//! A claim in a transaction is decided as the core decides: on records that the store has written, at
//! random, and at the moments at which something changes.

use std::collections::BTreeMap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use semel_core::{
    Attempt, Claim, Lease, OnAbandoned, Owner, Policy, Record, RecordId, Release, Reply,
    Settlement, State, Timestamp, decide,
};
use semel_postgres::transaction::{Permit, SameTransaction, TransactionClaim};
use semel_store::Store as _;
use tokio_postgres::{Client, IsolationLevel};

use crate::bank::body;
use crate::support::{Clocked, START, connect, schema_of};

const LEASE: Duration = Duration::from_secs(30);
const TTL: Duration = Duration::from_secs(100);
/// A moment, a lease, what is left of the retention then, all of it; and just before each.
const STEPS_MS: [u64; 6] = [1, 29_999, 30_000, 70_000, 99_999, 100_000];

/// One record, what was done to it, and what time it is.
struct Story {
    random: StdRng,
    clocked: Clocked,
    client: Client,
    same: SameTransaction,
    id: RecordId,
    now: Timestamp,
    lease: Option<Lease>,
    /// How often each verdict was given, so that none is missing.
    verdicts: BTreeMap<&'static str, u32>,
}

#[tokio::test]
async fn a_claim_in_a_transaction_agrees_with_the_core() {
    let mut story = Story::begin().await;
    for seed in 0..25 {
        story.random = StdRng::seed_from_u64(seed);
        story.id = RecordId::from_bytes([u8::try_from(seed).unwrap(); 32]);
        story.lease = None;
        for step in 0..8 {
            story.something_happens().await;
            story.compare(&format!("seed {seed}, step {step}")).await;
        }
    }
    let verdicts: Vec<_> = story.verdicts.keys().copied().collect();
    let all = ["abandoned", "execute", "in flight", "mismatch", "replay", "unknown"];
    assert_eq!(verdicts, all, "{:?}", story.verdicts);
}

impl Story {
    async fn begin() -> Self {
        let clocked = Clocked::make().await;
        let client = connect(&clocked.url).await;
        let same = SameTransaction::in_schema(schema_of(&clocked.url)).unwrap();
        Self {
            random: StdRng::seed_from_u64(0),
            clocked,
            client,
            same,
            id: RecordId::from_bytes([0; 32]),
            now: START,
            lease: None,
            verdicts: BTreeMap::new(),
        }
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.random.random_range(0..choices.len())].clone()
    }

    fn attempt(&mut self) -> Attempt {
        let body = body(self.one_of(&["100", "100", "100", "200"]));
        Attempt::new(self.id, body, Owner::from_u128(self.random.random()))
    }

    fn policy(&mut self) -> Policy {
        let choices = [OnAbandoned::Reexecute, OnAbandoned::Fail, OnAbandoned::Hold];
        let choice = self.one_of(&choices);
        Policy::builder().lease(LEASE).ttl(TTL).on_abandoned(choice).build().unwrap()
    }

    fn settlement(&mut self) -> Settlement {
        let reply = Reply::new(self.one_of(&["", "a", "b"]));
        self.one_of(&[Settlement::Completed(reply.clone()), Settlement::Failed(reply)])
    }

    /// A verb of the store, or time.
    async fn something_happens(&mut self) {
        let store = self.clocked.store.clone();
        match self.random.random_range(0..7) {
            0..3 => {
                let (attempt, policy) = (self.attempt(), self.policy());
                if let Claim::Execute(lease) = store.claim(&attempt, &policy).await.unwrap() {
                    self.lease = Some(lease);
                }
            }
            3 => {
                let by = Duration::from_millis(self.one_of(&STEPS_MS));
                self.clocked.advance(by).await;
                self.now = self.now.plus(by);
            }
            verb => {
                let Some(lease) = &self.lease else { return };
                match verb {
                    4 => drop(store.release(lease, Release::Retry).await.unwrap()),
                    5 => drop(store.release(lease, Release::Hold).await.unwrap()),
                    _ => {
                        let settlement = Settlement::Completed(Reply::new("by the store"));
                        drop(store.settle(lease, settlement).await.unwrap());
                    }
                }
            }
        }
    }

    async fn compare(&mut self, place: &str) {
        let (attempt, policy, settlement) = (self.attempt(), self.policy(), self.settlement());
        let isolation = self.one_of(&[
            IsolationLevel::ReadCommitted,
            IsolationLevel::RepeatableRead,
            IsolationLevel::Serializable,
        ]);
        let before = self.clocked.store.inspect(self.id).await.unwrap();
        let expected = decide(before.as_ref(), &attempt, &policy, self.now);
        let keeps = self.random.random_range(0..3) == 0;

        let mut tx =
            self.client.build_transaction().isolation_level(isolation).start().await.unwrap();
        let claim = self.same.claim(&mut tx, &attempt, &policy).await.unwrap();
        let (verdict, permit) = agreed(claim, &expected.claim, place);
        *self.verdicts.entry(verdict).or_default() += 1;
        let after = match permit {
            Some(permit) if keeps => {
                let expires = permit.settle(&mut tx, &settlement).await.unwrap();
                let record = settled(before, &attempt, &expected.claim, settlement, self.now);
                assert_eq!(expires, record.expires, "{place}");
                Some(record)
            }
            None if keeps => expected.write.or(before),
            _ => before,
        };
        if keeps {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        assert_eq!(self.clocked.store.inspect(self.id).await.unwrap(), after, "{place}");
    }
}

/// Demands that both say the same, and names it.
fn agreed(
    claim: TransactionClaim,
    expected: &Claim,
    place: &str,
) -> (&'static str, Option<Permit>) {
    match (claim, expected) {
        (TransactionClaim::Execute(permit), Claim::Execute(lease)) => {
            assert_eq!(permit.fence(), lease.fence(), "{place}");
            ("execute", Some(permit))
        }
        (TransactionClaim::Replay { settlement, expires }, Claim::Replay { .. }) => {
            let is_abandoned = settlement == Settlement::Abandoned;
            assert_eq!(&Claim::Replay { settlement, expires }, expected, "{place}");
            (if is_abandoned { "abandoned" } else { "replay" }, None)
        }
        (TransactionClaim::InFlight { .. }, Claim::InFlight { .. }) => ("in flight", None),
        (TransactionClaim::Mismatch, Claim::Mismatch) => ("mismatch", None),
        (TransactionClaim::Unknown, Claim::Unknown) => ("unknown", None),
        (claim, expected) => panic!("{place}: {claim:?} is not {expected:?}"),
    }
}

/// What a settled permit leaves behind. No lease was written, so none had to be outlived.
fn settled(
    before: Option<Record>,
    attempt: &Attempt,
    claim: &Claim,
    settlement: Settlement,
    now: Timestamp,
) -> Record {
    let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
    let (created, expires) =
        before.map_or((now, now.plus(TTL)), |record| (record.created, record.expires));
    Record {
        fingerprint: attempt.fingerprint(),
        created,
        expires,
        fence: lease.fence(),
        owner: attempt.owner(),
        state: State::Settled(settlement),
    }
}
