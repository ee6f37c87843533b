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
use semel_postgres::transaction::{
    Database as _, Isolation, Permit, SameTransaction, TransactionClaim, TransactionPool,
};
use semel_store::Store as _;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::bank::body;
use crate::support::{Clocked, START, connect, options, schema_of};

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
    pools: Vec<TransactionPool>,
    id: RecordId,
    now: Timestamp,
    lease: Option<Lease>,
    /// How often each verdict was given, so that none is missing.
    verdicts: BTreeMap<(bool, &'static str), u32>,
}

#[tokio::test]
async fn a_claim_in_a_transaction_agrees_with_the_core() {
    let mut story = Story::begin().await;
    for seed in 0..100 {
        story.random = StdRng::seed_from_u64(seed);
        story.id = RecordId::from_bytes([u8::try_from(seed).unwrap(); 32]);
        story.lease = None;
        for step in 0..8 {
            story.something_happens().await;
            story.compare(&format!("seed {seed}, step {step}")).await;
        }
    }
    let all = ["abandoned", "execute", "in flight", "mismatch", "replay", "unknown"];
    for by_pool in [false, true] {
        let verdicts: Vec<_> = story
            .verdicts
            .keys()
            .filter(|message| message.0 == by_pool)
            .map(|message| message.1)
            .collect();
        assert_eq!(verdicts, all, "{:?}", story.verdicts);
    }
}

impl Story {
    async fn begin() -> Self {
        let clocked = Clocked::make().await;
        let client = connect(&clocked.url).await;
        let same = SameTransaction::in_schema(schema_of(&clocked.url)).unwrap();
        let mut pools = Vec::new();
        for isolation in
            [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
        {
            let options = options(&clocked.url);
            pools.push(TransactionPool::open_with(options, isolation).await.unwrap());
        }
        Self {
            random: StdRng::seed_from_u64(0),
            clocked,
            client,
            same,
            pools,
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
        let (by_pool, isolation) = (self.random.random(), self.random.random_range(0..3));
        let before = self.clocked.store.inspect(self.id).await.unwrap();
        let expected = decide(before.as_ref(), &attempt, &policy, self.now);
        let keeps = self.random.random_range(0..3) == 0;

        let result = Case { attempt: &attempt, policy: &policy, expected: &expected.claim, place };
        let keeping = keeps.then_some(&settlement);
        let (verdict, expires) = if by_pool {
            result.by_pool(&self.pools[isolation], &self.same, keeping).await
        } else {
            let isolation = [
                IsolationLevel::ReadCommitted,
                IsolationLevel::RepeatableRead,
                IsolationLevel::Serializable,
            ][isolation];
            let tx = self.client.build_transaction().isolation_level(isolation).start();
            result.by_own(tx.await.unwrap(), &self.same, keeping).await
        };
        *self.verdicts.entry((by_pool, verdict)).or_default() += 1;
        let after = match expires {
            Some(expires) => {
                let record = settled(before, &attempt, &expected.claim, settlement, self.now);
                assert_eq!(expires, record.expires, "{place}");
                Some(record)
            }
            None if keeps => expected.write.or(before),
            None => before,
        };
        assert_eq!(self.clocked.store.inspect(self.id).await.unwrap(), after, "{place}");
    }
}

/// One claim, and what it must come to.
struct Case<'a> {
    attempt: &'a Attempt,
    policy: &'a Policy,
    expected: &'a Claim,
    place: &'a str,
}

/// A verdict, and until when an outcome is kept if one was settled.
type Verdict = (&'static str, Option<Timestamp>);

impl Case<'_> {
    /// In a transaction of the test's own. It is committed if there is something to keep.
    async fn by_own(
        &self,
        mut tx: Transaction<'_>,
        same: &SameTransaction,
        keeping: Option<&Settlement>,
    ) -> Verdict {
        let claim = same.claim(&mut tx, self.attempt, self.policy).await.unwrap();
        let (verdict, permit) = agreed(claim, self.expected, self.place);
        let mut expires = None;
        if let (Some(permit), Some(settlement)) = (permit, keeping) {
            expires = Some(permit.settle(&mut tx, settlement).await.unwrap());
        }
        if keeping.is_some() {
            tx.commit().await.unwrap();
        } else {
            tx.rollback().await.unwrap();
        }
        (verdict, expires)
    }

    /// The same in one of the pool's, which has statements of its own for what is usual.
    async fn by_pool(
        &self,
        pool: &TransactionPool,
        same: &SameTransaction,
        keeping: Option<&Settlement>,
    ) -> Verdict {
        let (tx, claim) = pool.begin(same, self.attempt, self.policy).await.unwrap();
        let (verdict, permit) = agreed(claim, self.expected, self.place);
        if let (Some(permit), Some(settlement)) = (permit, keeping) {
            (verdict, Some(pool.commit(tx, permit, settlement).await.unwrap()))
        } else {
            pool.end(tx, keeping.is_some()).await.unwrap();
            (verdict, None)
        }
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
    let (created, expires) = before
        .map_or((now, now.plus(TTL)), |record| (record.created, record.expires.max(now.plus(TTL))));
    Record {
        fingerprint: attempt.fingerprint(),
        created,
        expires,
        fence: lease.fence(),
        owner: attempt.owner(),
        state: State::Settled(settlement),
    }
}
