use semel_core::{Fence, Fingerprint, Owner, Reply, Settlement, Timestamp};

use super::*;

fn id(number: usize) -> RecordId {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
    RecordId::from_bytes(bytes)
}

fn record(state: State) -> Record {
    Record {
        fingerprint: Fingerprint::from_bytes([1; 32]),
        created: Timestamp::ZERO,
        expires: Timestamp::from_millis(9),
        fence: Fence::FIRST,
        owner: Owner::from_u128(1),
        state,
    }
}

fn absent(as_of: u64) -> Snapshot {
    Snapshot { as_of, record: None }
}

#[test]
fn a_recent_write_overrides_a_snapshot() {
    let mut recent = RecentWrites::default();
    recent.wrote(5, id(1), record(State::Held));
    assert_eq!(recent.look_up(id(1), Some(absent(4))), Lookup::Current(Some(record(State::Held))));
    recent.deleted(6, id(1));
    assert_eq!(recent.look_up(id(1), Some(absent(4))), Lookup::Current(None));
}

#[test]
fn a_snapshot_is_current_while_no_later_write_was_evicted() {
    let mut recent = RecentWrites::default();
    for number in 0..=tuning::RECENT_MAX {
        recent.wrote(10 + number as u64, id(number), record(State::Held));
    }
    recent.evict(u64::MAX);
    // Only the write of batch 10 is evicted: a snapshot from before it may miss that write.
    assert_eq!(recent.look_up(id(0), Some(absent(9))), Lookup::ReadDatabase);
    assert_eq!(recent.look_up(id(0), Some(absent(10))), Lookup::Current(None));
    assert_eq!(recent.look_up(id(0), None), Lookup::ReadDatabase);
}

#[test]
fn an_id_written_again_is_not_evicted_with_its_first_entry() {
    let mut recent = RecentWrites::default();
    recent.wrote(1, id(0), record(State::Held));
    recent.wrote(2, id(0), record(State::Released));
    for number in 1..tuning::RECENT_MAX {
        recent.wrote(3, id(number), record(State::Held));
    }
    recent.evict(u64::MAX);
    assert_eq!(recent.look_up(id(0), None), Lookup::Current(Some(record(State::Released))));
    assert_eq!(recent.order.len(), tuning::RECENT_MAX);
}

/// The database does not have it yet: to evict it would be to lose it.
#[test]
fn writes_that_are_not_visible_are_never_evicted() {
    let mut recent = RecentWrites::default();
    for number in 0..2 * tuning::RECENT_MAX {
        recent.wrote(7, id(number), record(State::Held));
    }
    recent.evict(6);
    assert_eq!(recent.look_up(id(0), Some(absent(6))), Lookup::Current(Some(record(State::Held))));
    recent.evict(7);
    assert_eq!(recent.look_up(id(0), Some(absent(6))), Lookup::ReadDatabase);
    assert_eq!(recent.written.len(), tuning::RECENT_MAX);
}

#[test]
fn large_replies_are_evicted_sooner() {
    let mut recent = RecentWrites::default();
    let reply = Reply::new(vec![0; tuning::RECENT_BYTES_MAX]);
    recent.wrote(1, id(1), record(State::Settled(Settlement::Completed(reply.clone()))));
    recent.evict(1);
    assert!(matches!(recent.look_up(id(1), None), Lookup::Current(Some(_))));
    recent.wrote(2, id(2), record(State::Settled(Settlement::Completed(reply))));
    recent.evict(2);
    assert_eq!(recent.look_up(id(1), Some(absent(0))), Lookup::ReadDatabase);
    assert_eq!(recent.bytes, tuning::RECENT_BYTES_MAX);
    recent.deleted(3, id(2));
    assert_eq!(recent.bytes, 0);
}

#[test]
fn a_record_in_a_new_life_is_not_swept() {
    let mut recent = RecentWrites::default();
    recent.wrote(5, id(1), record(State::Held));
    assert!(!recent.unchanged_since(id(1), 4), "written after the sweep looked");
    assert!(recent.unchanged_since(id(1), 5), "seen by the sweep as it is");
    assert!(recent.unchanged_since(id(2), 0));
    recent.reset(7);
    assert!(!recent.unchanged_since(id(2), 6), "it may have been evicted");
    assert!(recent.unchanged_since(id(2), 7));
}
