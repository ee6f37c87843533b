//! I7 and I8: another request, another scope, another schema.

use semel_core::{Key, RecordId, Scope};
use semel_store::Answer;

use crate::bank::{Bank, body, completed, conflict, deposit, id, is_executed, is_in_flight, never};
use crate::gate::Gate;

#[tokio::test]
async fn another_request_with_the_same_key_is_a_mismatch() {
    let bank = Bank::open().await;
    bank.once("k", conflict(), deposit).await.unwrap();
    for _ in 0..2 {
        let answer = bank.pool.once(id("k"), body("200"), conflict(), never).await.unwrap();
        assert_eq!(answer, Answer::Mismatch);
    }
    let answer = bank.once("k", conflict(), never).await.unwrap();
    assert!(matches!(answer, Answer::Replayed { .. }), "{answer:?}");
    assert_eq!(bank.counts().await, [1, 0, 1]);
}

/// The fingerprint of work in flight is not visible to others.
#[tokio::test]
async fn another_request_is_in_flight_until_the_first_has_committed() {
    let bank = Bank::open().await;
    let gate = Gate::new();
    let working = bank.once("k", conflict(), |_| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            Ok(completed("done"))
        })
    });
    let asking = async {
        gate.reached().await;
        let other = bank.pool.once(id("k"), body("200"), conflict(), never).await.unwrap();
        gate.open();
        other
    };
    let (first, other) = tokio::join!(working, asking);
    assert!(is_executed(&first.unwrap()) && is_in_flight(&other), "{other:?}");
    let other = bank.pool.once(id("k"), body("200"), conflict(), never).await.unwrap();
    assert_eq!(other, Answer::Mismatch);
}

/// The same key, at the same time: of two clients, for two routes, in two namespaces.
#[tokio::test]
async fn scopes_do_not_see_each_other() {
    let bank = Bank::open().await;
    let key = Key::parse("k").unwrap();
    let id = |namespace: &str, who: &str, what: &str| {
        RecordId::new(namespace, &Scope::new([("who", who), ("what", what)]), &key)
    };
    let ids =
        [id("a", "anna", "x"), id("a", "bert", "x"), id("a", "anna", "y"), id("b", "anna", "x")];
    let gate = Gate::new();
    let once = |id| {
        bank.pool.once(id, body("100"), conflict(), |work| {
            let gate = gate.clone();
            Box::pin(async move {
                gate.pass().await;
                deposit(work).await
            })
        })
    };
    let all_at_work = async {
        for _ in ids {
            gate.reached().await;
        }
        gate.open();
    };
    let [a, b, c, d] = ids;
    let (a, b, c, d, ()) = tokio::join!(once(a), once(b), once(c), once(d), all_at_work);
    for answer in [a, b, c, d] {
        assert!(is_executed(&answer.unwrap()));
    }
    assert_eq!(bank.counts().await, [4, 0, 4]);
}

/// Two services with a schema each in one database, and by chance the same id.
#[tokio::test]
async fn schemas_do_not_see_each_other() {
    let (one, two) = (Bank::open().await, Bank::open().await);
    let gate = Gate::new();
    let working = one.once("k", conflict(), |work| {
        let gate = gate.clone();
        Box::pin(async move {
            gate.pass().await;
            deposit(work).await
        })
    });
    let other = async {
        gate.reached().await;
        let answer = two.once("k", conflict(), deposit).await;
        gate.open();
        answer
    };
    let (working, other) = tokio::join!(working, other);
    assert!(is_executed(&working.unwrap()) && is_executed(&other.unwrap()));
}
