use std::num::NonZero;
use std::time::Duration;

use tokio::time::advance;

use super::*;
use crate::{Rate, ScopeLimits};

fn quota(scope: impl std::hash::Hash, executions_max: u32, new_keys: u32) -> Quota {
    let new_keys = NonZero::new(new_keys).map(Rate::per_second);
    Quota::of(scope, ScopeLimits { executions_max, new_keys, ..ScopeLimits::default() })
}

#[test]
fn permits_of_a_scope_are_limited_and_returned() {
    let quotas = Quotas::default();
    let (ann, bob) = (quota("ann", 2, 0), quota("bob", 2, 0));
    let first = quotas.take(ann).unwrap();
    let second = quotas.take(ann).unwrap();
    assert_eq!(quotas.take(ann).unwrap_err(), TooManyKeys::Executions { max: 2 });
    let other = quotas.take(bob).unwrap();
    drop(first);
    let third = quotas.take(ann).unwrap();
    assert_eq!(quotas.scopes(), 2);
    drop((second, third, other));
    assert_eq!(quotas.scopes(), 0, "nothing is kept of those who are done");
}

/// Scopes with the same hash are equal; the limits are those of the latest quota.
#[test]
fn a_lower_limit_holds_at_once() {
    let quotas = Quotas::default();
    let held = [quotas.take(quota("ann", 5, 0)), quotas.take(quota("ann", 5, 0))];
    assert!(quotas.take(quota("ann", 2, 0)).is_err());
    assert!(quotas.take(quota("ann", 3, 0)).is_ok());
    assert!(held.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn permits_of_keys_are_returned_unless_the_key_was_new() {
    let quotas = Quotas::default();
    let ann = quota("ann", 100, 2);
    let mut known = quotas.take(ann).unwrap();
    known.return_key();
    known.return_key();
    drop(quotas.take(ann).unwrap());
    let mut new = [quotas.take(ann).unwrap(), quotas.take(ann).unwrap()];
    let refused = quotas.take(ann).unwrap();
    assert!(matches!(refused.may_begin_key(), Err(TooManyKeys::NewKeys { .. })));
    new.iter_mut().for_each(QuotaPermit::spend_key);
    drop(new);
    drop(refused);
    assert!(quotas.take(ann).unwrap().may_begin_key().is_err(), "both are spent");
    advance(Duration::from_secs(1)).await;
    assert!(quotas.take(ann).unwrap().may_begin_key().is_ok());
}

/// Its record was there when it was read, and had expired when it was claimed.
#[tokio::test(start_paused = true)]
async fn a_key_that_begins_without_a_permit_counts() {
    let quotas = Quotas::default();
    let ann = quota("ann", 100, 1);
    quotas.take(ann).unwrap().spend_key();
    let mut refused = quotas.take(ann).unwrap();
    assert!(refused.may_begin_key().is_err());
    refused.spend_key();
    drop(refused);
    advance(Duration::from_secs(1)).await;
    assert!(quotas.take(ann).unwrap().may_begin_key().is_err(), "there is a deficit of one");
    advance(Duration::from_secs(1)).await;
    assert!(quotas.take(ann).unwrap().may_begin_key().is_ok());
}

/// A scope that may execute nothing is refused without an entry, which would never be removed.
#[test]
fn a_scope_that_may_execute_nothing_gets_no_entry() {
    let quotas = Quotas::default();
    for number in 0..100 {
        let refused = quotas.take(quota(number, 0, 1));
        assert_eq!(refused.unwrap_err(), TooManyKeys::Executions { max: 0 });
    }
    assert_eq!(quotas.scopes(), 0);
}

fn bounded(records: u64, record_bytes: u64) -> Quota {
    let rate = |count| NonZero::new(count).map(|count| Rate::of(count, Duration::from_secs(10)));
    let (records, record_bytes) = (rate(records), rate(record_bytes));
    Quota::of("ann", ScopeLimits { records, record_bytes, ..ScopeLimits::default() })
}

/// The burst, and the permits that were refilled meanwhile: twice the limit.
#[tokio::test(start_paused = true)]
async fn at_most_twice_the_limit_of_records_begins_within_the_ttl() {
    let (quotas, ann) = (Quotas::default(), bounded(10, 0));
    let mut begun = 0;
    for _ in 0..1_000 {
        let mut permit = quotas.take(ann).unwrap();
        // A key without a permit is not claimed.
        if permit.may_begin_key().is_ok() {
            begun += 1;
            permit.spend_key();
        }
        advance(Duration::from_millis(10)).await;
    }
    assert!((19..=20).contains(&begun), "{begun}");
}

#[tokio::test(start_paused = true)]
async fn a_scope_with_a_deficit_of_bytes_waits_until_it_is_refilled() {
    let (quotas, ann) = (Quotas::default(), bounded(0, 1_000));
    let permit = quotas.take(ann).unwrap();
    permit.spend_bytes(1_000);
    assert!(quotas.take(ann).unwrap().may_begin_key().is_ok(), "nothing is owed");
    permit.spend_bytes(500);
    let refused = quotas.take(ann).unwrap().may_begin_key();
    let Err(TooManyKeys::RecordBytes { again_in, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(again_in, Duration::from_secs(5));
    advance(again_in).await;
    assert!(quotas.take(ann).unwrap().may_begin_key().is_ok());
    drop(permit);
    assert_eq!(quotas.scopes(), 1, "its bytes are remembered");
}

/// Of two limits the one that lasts longer is reported: a retry after the shorter one would be refused again.
#[tokio::test(start_paused = true)]
async fn the_limit_that_lasts_longest_is_reported() {
    let quotas = Quotas::default();
    let rate = |seconds| Some(Rate::of(NonZero::<u64>::MIN, Duration::from_secs(seconds)));
    let limits = ScopeLimits { new_keys: rate(1), records: rate(10), ..ScopeLimits::default() };
    let ann = Quota::of("ann", limits);
    quotas.take(ann).unwrap().spend_key();
    let refused = quotas.take(ann).unwrap().may_begin_key();
    let Err(TooManyKeys::Records { again_in, .. }) = refused else { panic!("{refused:?}") };
    assert_eq!(again_in, Duration::from_secs(10));
    advance(again_in).await;
    let mut known = quotas.take(ann).unwrap();
    known.return_key();
    assert!(quotas.take(ann).unwrap().may_begin_key().is_ok(), "both are given back");
}

/// I10: for any number of scopes, at their limits or not.
#[tokio::test(start_paused = true)]
async fn the_number_of_kept_scopes_is_bounded() {
    let quotas = Quotas::default();
    let busy = quotas.take(quota("busy", 1, 1)).unwrap();
    for number in 0..4 * SHARDS * IDLE_MAX {
        let mut permit = quotas.take(quota(number, 1, 1)).unwrap();
        permit.spend_key();
    }
    assert!(quotas.scopes() <= SHARDS * IDLE_MAX, "{}", quotas.scopes());
    assert!(quotas.take(quota("busy", 1, 1)).is_err(), "who executes is not forgotten");
    drop(busy);
    assert!(quotas.scopes() > SHARDS, "rates are remembered");
}
