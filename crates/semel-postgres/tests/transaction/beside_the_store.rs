//! One record, used in transactions and by the verbs of the store: each keeps to what the other did.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{
    Claim, Fence, Lease, OnAbandoned, Policy, Refusal, Release, Reply, Settlement, State,
};
use semel_postgres::PostgresStore;
use semel_postgres::transaction::{Isolation, OnceError};
use semel_store::{Answer, Released, Renewed, Settled, Store, StoreError};

use crate::bank::{Bank, attempt, conflict, deposit, id, is_executed, is_in_flight, never};
use crate::gate::Gate;
use crate::support::{Clocked, options};

/// A bank with a store beside it, by a clock that the test moves.
struct Both {
    clocked: Clocked,
    bank: Bank,
}

impl Both {
    async fn open() -> Self {
        Self::isolated(Isolation::Default).await
    }

    async fn isolated(isolation: Isolation) -> Self {
        let clocked = Clocked::make().await;
        let bank = Bank::at(&clocked.url, isolation, |options| options).await;
        Self { clocked, bank }
    }

    /// A lease of the record, granted by the store.
    async fn lease(&self) -> Lease {
        lease(&self.clocked.store).await
    }

    async fn state(&self) -> State {
        self.clocked.store.inspect(id("k")).await.unwrap().expect("a record").state
    }

    async fn lease_runs_out(&self) {
        self.clocked.advance(conflict().lease()).await;
    }
}

async fn lease(store: &PostgresStore) -> Lease {
    let claim = store.claim(&attempt("k"), conflict()).await.unwrap();
    let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
    lease
}

fn on_abandoned(choice: OnAbandoned) -> Policy {
    Policy::builder().on_abandoned(choice).build().unwrap()
}

/// The fence of an answer that executed.
fn fence(answer: &Answer) -> u64 {
    let Answer::Executed { fence, .. } = answer else { panic!("{answer:?}") };
    fence.get()
}

#[tokio::test]
async fn a_lease_of_the_store_is_in_flight() {
    let both = Both::open().await;
    let lease = both.lease().await;
    let answer = both.bank.once("k", conflict(), never).await.unwrap();
    assert!(is_in_flight(&answer), "{answer:?}");
    let settlement = Settlement::Completed(Reply::new("by the store"));
    both.clocked.store.settle(&lease, settlement.clone()).await.unwrap();
    let answer = both.bank.once("k", conflict(), never).await.unwrap();
    assert_eq!(answer.reply(), settlement.reply());
}

#[tokio::test]
async fn a_released_record_is_executed_with_the_next_fence() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let both = Both::isolated(isolation).await;
        let lease = both.lease().await;
        both.clocked.store.release(&lease, Release::Retry).await.unwrap();
        let answer = both.bank.once("k", conflict(), deposit).await.unwrap();
        assert_eq!(fence(&answer), 2, "{isolation:?}");
        assert_eq!(both.bank.counts().await, [1, 0, 1], "{isolation:?}");
    }
}

#[tokio::test]
async fn a_held_record_is_unknown() {
    let both = Both::open().await;
    let lease = both.lease().await;
    both.clocked.store.release(&lease, Release::Hold).await.unwrap();
    let answer = both.bank.once("k", conflict(), never).await.unwrap();
    assert_eq!(answer, Answer::Unknown { reply: None });
}

#[tokio::test]
async fn an_abandoned_lease_follows_the_policy() {
    let both = Both::open().await;
    drop(both.lease().await);
    both.lease_runs_out().await;
    let held = both.bank.once("k", &on_abandoned(OnAbandoned::Hold), never).await.unwrap();
    assert_eq!(held, Answer::Unknown { reply: None });
    let reexecute = on_abandoned(OnAbandoned::Reexecute);
    let answer = both.bank.once("k", &reexecute, deposit).await.unwrap();
    assert_eq!(fence(&answer), 2);
}

#[tokio::test]
async fn an_abandoned_lease_is_failed_durably_before_it_is_returned() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let both = Both::isolated(isolation).await;
        let late = both.lease().await;
        both.lease_runs_out().await;
        let fail = on_abandoned(OnAbandoned::Fail);
        let answer = both.bank.once("k", &fail, never).await.unwrap();
        let Answer::Replayed { settlement, .. } = answer else { panic!("{answer:?}") };
        assert_eq!(settlement, Settlement::Abandoned, "{isolation:?}");
        assert_eq!(both.state().await, State::Settled(Settlement::Abandoned), "{isolation:?}");
        // And its holder cannot settle it any more (I2).
        let settled = both.clocked.store.settle(&late, Settlement::Completed(Reply::default()));
        let settled = settled.await.unwrap();
        assert!(matches!(settled, Settled::Refused(Refusal::Settled { .. })), "{settled:?}");
    }
}

#[tokio::test]
async fn an_expired_record_is_replaced() {
    for isolation in [Isolation::ReadCommitted, Isolation::Serializable] {
        let both = Both::isolated(isolation).await;
        both.bank.once("k", conflict(), deposit).await.unwrap();
        let moment = Duration::from_millis(1);
        both.clocked.advance(conflict().ttl().saturating_sub(moment)).await;
        let answer = both.bank.once("k", conflict(), never).await.unwrap();
        assert!(matches!(answer, Answer::Replayed { .. }), "{isolation:?}: {answer:?}");
        both.clocked.advance(moment).await;
        let other = crate::bank::body("200");
        let answer = both.bank.pool.once(id("k"), other, conflict(), deposit).await.unwrap();
        assert_eq!(fence(&answer), 1, "{isolation:?}");
        let record = both.clocked.store.inspect(id("k")).await.unwrap().expect("a record");
        assert_eq!(record.fingerprint, other, "{isolation:?}");
        assert_eq!(record.expires, record.created.plus(conflict().ttl()), "{isolation:?}");
        assert_eq!(both.bank.counts().await, [2, 0, 1], "{isolation:?}");
    }
}

/// The store does not see the transaction's lock. Its claim comes between our claim and our settle: then
/// nothing of our work may stay, and the next try finds the lease.
#[tokio::test]
async fn a_claim_of_the_store_that_comes_between_undoes_the_work() {
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead, Isolation::Serializable]
    {
        let both = Both::isolated(isolation).await;
        let store = Arc::new(both.clocked.store.clone());
        let work = both.bank.once("k", conflict(), |work| {
            let store = store.clone();
            Box::pin(async move {
                let outcome = deposit(work).await;
                assert_eq!(lease(&store).await.fence(), Fence::FIRST);
                outcome
            })
        });
        let answer = work.await.unwrap();
        assert!(is_in_flight(&answer), "{isolation:?}: {answer:?}");
        assert_eq!(both.bank.counts().await, [0, 0, 1], "{isolation:?}");
        assert!(matches!(both.state().await, State::Leased { .. }), "{isolation:?}");
    }
}

/// There is a row to lock if the record was released: so the store has to wait, in vain here.
#[tokio::test]
async fn a_released_record_is_not_claimed_while_a_transaction_executes_it() {
    let both = Both::open().await;
    let released = both.lease().await;
    both.clocked.store.release(&released, Release::Retry).await.unwrap();
    let impatient = options(&both.clocked.url).verb_timeout(Duration::from_millis(50));
    let (store, gate) = (impatient.open().await.unwrap(), Gate::new());
    let working = both.bank.once("k", conflict(), |work| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            deposit(work).await
        })
    });
    let claiming = async {
        gate.reached().await;
        let claim = store.claim(&attempt("k"), conflict()).await;
        gate.open();
        claim
    };
    let (working, claim) = tokio::join!(working, claiming);
    let refused = matches!(
        &claim,
        Err(StoreError::Declined { .. } | StoreError::TimedOut { .. }) | Ok(Claim::InFlight { .. })
    );
    assert!(refused, "{claim:?}");
    assert_eq!(fence(&working.unwrap()), 2);
}

#[tokio::test]
async fn a_settle_in_a_transaction_is_final_for_the_store() {
    let both = Both::open().await;
    let store = &both.clocked.store;
    let late = both.lease().await;
    both.lease_runs_out().await;
    let answer = both.bank.once("k", conflict(), deposit).await.unwrap();
    let Answer::Executed { settlement, expires, fence, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(fence.get(), 2);

    let replay = Claim::Replay { settlement: settlement.clone(), expires };
    assert_eq!(store.claim(&attempt("k"), conflict()).await.unwrap(), replay);
    let refusal = Refusal::Settled { settlement: settlement.clone(), expires };
    let renewed = store.renew(&late, conflict().lease()).await.unwrap();
    assert_eq!(renewed, Renewed::Refused(refusal.clone()));
    let settled = store.settle(&late, Settlement::Failed(Reply::new("late"))).await.unwrap();
    assert_eq!(settled, Settled::Refused(refusal.clone()));
    for how in [Release::Retry, Release::Hold] {
        let released = store.release(&late, how).await.unwrap();
        assert_eq!(released, Released::Refused(refusal.clone()));
    }
    let record = store.inspect(id("k")).await.unwrap().expect("a record");
    assert_eq!(record.state, State::Settled(settlement));
    assert_eq!((record.expires, record.fence), (expires, fence));
}

#[tokio::test]
async fn a_record_of_a_transaction_is_swept_when_it_has_expired() {
    let both = Both::open().await;
    both.bank.once("k", conflict(), deposit).await.unwrap();
    assert_eq!(both.clocked.store.sweep(10).await.unwrap().deleted, 0);
    both.clocked.advance(conflict().ttl()).await;
    assert_eq!(both.clocked.store.sweep(10).await.unwrap().deleted, 1);
    assert!(is_executed(&both.bank.once("k", conflict(), deposit).await.unwrap()));
}

#[tokio::test]
async fn a_record_that_cannot_be_read_is_not_worked_on() {
    let bank = Bank::open().await;
    bank.once("k", conflict(), deposit).await.unwrap();
    bank.session.batch_execute("UPDATE record SET state = 99").await.unwrap();
    let error = bank.once("k", conflict(), never).await.unwrap_err();
    let OnceError::Unavailable(cause) = &error else { panic!("{error:?}") };
    assert!(cause.to_string().contains(&id("k").prefix()), "{error}");
}
