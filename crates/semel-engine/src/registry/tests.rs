use semel_core::{Fence, Lease};

use super::*;

fn record(number: u8) -> RecordId {
    RecordId::from_bytes([number; 32])
}

fn attempt(number: u8, owner: u128) -> Attempt {
    Attempt::new(record(number), Fingerprint::from_bytes([1; 32]), Owner::from_u128(owner))
}

fn lease(number: u8, fence: Fence) -> Lease {
    let (fingerprint, owner) = (Fingerprint::from_bytes([1; 32]), Owner::from_u128(1));
    let until = Timestamp::from_millis(5);
    Lease::new(record(number), fingerprint, fence, owner, until, until)
}

fn holder(registry: &Arc<Registry>, number: u8) -> RegistryEntry {
    let mut entry = registry.enter(&attempt(number, 1)).unwrap();
    let _ = entry.hold(lease(number, Fence::FIRST), LeaseUse::Execution).unwrap();
    entry
}

fn is_empty(registry: &Registry) -> bool {
    registry.shards.iter().all(|shard| shard.lock().unwrap().is_empty())
}

#[tokio::test]
async fn a_notification_sent_before_the_first_recv_is_not_missed() {
    let registry = Arc::new(Registry::default());
    let mut listener = registry.listen(record(1));
    drop(holder(&registry, 1));
    assert!(matches!(listener.recv().await, Notification::Changed));
}

#[tokio::test]
async fn a_listener_that_comes_during_the_execution_receives_its_outcome() {
    let registry = Arc::new(Registry::default());
    let mut holder = holder(&registry, 1);
    let mut listener = registry.listen(record(1));
    let (fingerprint, settlement) = (Fingerprint::from_bytes([1; 32]), Settlement::Abandoned);
    let (expires, source) = (Timestamp::ZERO, Source::Holder);
    holder.publish(Notification::Settled { fingerprint, settlement, expires, source });
    drop(holder);
    assert!(matches!(listener.recv().await, Notification::Settled { .. }));
}

#[tokio::test]
async fn a_new_listener_does_not_receive_old_notifications() {
    let registry = Arc::new(Registry::default());
    let _keeps_it_alive = registry.listen(record(1));
    drop(holder(&registry, 1));
    let mut late = registry.listen(record(1));
    let received = tokio::time::timeout(std::time::Duration::ZERO, late.recv()).await;
    assert!(received.is_err());
}

#[test]
fn the_registry_is_empty_once_all_entries_and_listeners_are_dropped() {
    let registry = Arc::new(Registry::default());
    let listener = registry.listen(record(1));
    let claim = registry.enter(&attempt(3, 1)).unwrap();
    drop((listener, holder(&registry, 1), holder(&registry, 2), claim));
    assert!(is_empty(&registry));
}

#[test]
fn waiters_are_counted_for_each_record() {
    let registry = Arc::new(Registry::default());
    let mut first = registry.listen(record(1));
    let mut second = registry.listen(record(1));
    let mut other = registry.listen(record(2));
    assert!(first.start_waiting(1));
    assert!(!second.start_waiting(1));
    assert!(other.start_waiting(1));
    drop(first);
    assert!(second.start_waiting(1));
    assert!(!second.is_held_here());
    assert_eq!(second.waiters(), 1);
}

#[test]
fn no_attempt_enters_past_a_holder() {
    let registry = Arc::new(Registry::default());
    let holder = holder(&registry, 1);
    let joined = registry.enter(&attempt(1, 2)).unwrap_err();
    let until = Timestamp::from_millis(5);
    assert_eq!(joined, Joined { is_same_request: true, until });

    let other = Fingerprint::from_bytes([2; 32]);
    let other = Attempt::new(record(1), other, Owner::from_u128(3));
    assert!(!registry.enter(&other).unwrap_err().is_same_request);

    holder.renewed(Timestamp::from_millis(9));
    assert_eq!(registry.enter(&attempt(1, 2)).unwrap_err().until, Timestamp::from_millis(9));
    drop(holder);
    assert!(registry.enter(&attempt(1, 2)).is_ok());
}

#[test]
fn a_holder_adopts_a_lease_that_another_attempt_was_granted() {
    let registry = Arc::new(Registry::default());
    let mut late = registry.enter(&attempt(1, 2)).unwrap();
    let holder = holder(&registry, 1);
    assert!(late.check().is_err(), "a claim is not repeated past a holder");
    assert!(holder.has_other_claimants());
    assert!(
        late.hold(lease(1, Fence::FIRST.next()), LeaseUse::Execution).unwrap_err().is_same_request
    );
    assert!(!late.is_adopted());

    let until = Timestamp::from_millis(9);
    assert!(!holder.adopt(Owner::from_u128(3), until), "of another process");
    assert!(!late.adopt(Owner::from_u128(2), until), "not by one that holds nothing");
    assert!(holder.adopt(Owner::from_u128(2), until));
    assert!(late.is_adopted() && !holder.has_other_claimants());
    assert_eq!(registry.enter(&attempt(1, 4)).unwrap_err().until, until);
}

/// The grant is acknowledged after the holder has executed and settled.
#[test]
fn the_first_owner_of_an_adopted_lease_cannot_hold_it() {
    let registry = Arc::new(Registry::default());
    let mut late = registry.enter(&attempt(1, 2)).unwrap();
    let holder = holder(&registry, 1);
    assert!(holder.adopt(Owner::from_u128(2), Timestamp::from_millis(9)));
    drop(holder);
    assert!(late.hold(lease(1, Fence::FIRST.next()), LeaseUse::Execution).is_err());
    drop(late);
    assert!(is_empty(&registry));
}

/// A late copy of its own claim was granted.
#[test]
fn a_holder_continues_under_a_newer_lease_of_its_own() {
    let registry = Arc::new(Registry::default());
    let mut holder = holder(&registry, 1);
    assert!(holder.adopt(Owner::from_u128(1), Timestamp::from_millis(9)));
    assert!(!holder.is_adopted());
    assert!(holder.hold(lease(1, Fence::FIRST.next()), LeaseUse::Execution).is_ok());
}

#[test]
fn an_execution_without_a_lease_adopts_one() {
    let registry = Arc::new(Registry::default());
    let mut late = registry.enter(&attempt(1, 2)).unwrap();
    let mut holder = registry.enter(&attempt(1, 1)).unwrap();
    holder.hold_unprotected().unwrap();
    assert!(late.hold(lease(1, Fence::FIRST), LeaseUse::Execution).is_err());
    assert!(holder.adopt(Owner::from_u128(2), Timestamp::from_millis(9)));
    assert!(holder.hold(lease(1, Fence::FIRST), LeaseUse::Execution).is_ok());
}

#[test]
fn an_attempt_that_holds_nothing_ends_nothing() {
    let registry = Arc::new(Registry::default());
    let late = registry.enter(&attempt(1, 2)).unwrap();
    let _holder = holder(&registry, 1);
    drop(late);
    assert!(registry.enter(&attempt(1, 3)).is_err());
}
