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

fn absent(as_of: u64) -> Seen {
    Seen { as_of, record: None }
}

#[test]
fn what_was_written_outdoes_what_was_seen() {
    let mut recent = Recent::default();
    recent.wrote(5, id(1), record(State::Held));
    assert_eq!(recent.know(id(1), Some(absent(4))), Known::Is(Some(record(State::Held))));
    recent.deleted(6, id(1));
    assert_eq!(recent.know(id(1), Some(absent(4))), Known::Is(None));
}

#[test]
fn what_was_seen_counts_while_nothing_later_was_forgotten() {
    let mut recent = Recent::default();
    for number in 0..=tuning::RECENT_MAX {
        recent.wrote(10 + number as u64, id(number), record(State::Held));
    }
    recent.forget_old(u64::MAX);
    // Only the write of group 10 is forgotten: who looked before it cannot know what it wrote.
    assert_eq!(recent.know(id(0), Some(absent(9))), Known::AskEngine);
    assert_eq!(recent.know(id(0), Some(absent(10))), Known::Is(None));
    assert_eq!(recent.know(id(0), None), Known::AskEngine);
}

#[test]
fn an_id_written_again_is_not_forgotten_with_its_first_entry() {
    let mut recent = Recent::default();
    recent.wrote(1, id(0), record(State::Held));
    recent.wrote(2, id(0), record(State::Released));
    for number in 1..tuning::RECENT_MAX {
        recent.wrote(3, id(number), record(State::Held));
    }
    recent.forget_old(u64::MAX);
    assert_eq!(recent.know(id(0), None), Known::Is(Some(record(State::Released))));
    assert_eq!(recent.order.len(), tuning::RECENT_MAX);
}

/// The engine does not have it yet: to forget it would be to lose it.
#[test]
fn what_is_not_committed_is_never_forgotten() {
    let mut recent = Recent::default();
    for number in 0..2 * tuning::RECENT_MAX {
        recent.wrote(7, id(number), record(State::Held));
    }
    recent.forget_old(6);
    assert_eq!(recent.know(id(0), Some(absent(6))), Known::Is(Some(record(State::Held))));
    recent.forget_old(7);
    assert_eq!(recent.know(id(0), Some(absent(6))), Known::AskEngine);
    assert_eq!(recent.written.len(), tuning::RECENT_MAX);
}

#[test]
fn large_replies_are_forgotten_sooner() {
    let mut recent = Recent::default();
    let reply = Reply::new(vec![0; tuning::RECENT_BYTES_MAX]);
    recent.wrote(1, id(1), record(State::Settled(Settlement::Completed(reply.clone()))));
    recent.forget_old(1);
    assert!(matches!(recent.know(id(1), None), Known::Is(Some(_))));
    recent.wrote(2, id(2), record(State::Settled(Settlement::Completed(reply))));
    recent.forget_old(2);
    assert_eq!(recent.know(id(1), Some(absent(0))), Known::AskEngine);
    assert_eq!(recent.bytes, tuning::RECENT_BYTES_MAX);
    recent.deleted(3, id(2));
    assert_eq!(recent.bytes, 0);
}

#[test]
fn a_record_in_a_new_life_is_not_swept() {
    let mut recent = Recent::default();
    recent.wrote(5, id(1), record(State::Held));
    assert!(!recent.untouched_since(id(1), 4), "written after the sweep looked");
    assert!(recent.untouched_since(id(1), 5), "seen by the sweep as it is");
    assert!(recent.untouched_since(id(2), 0));
    recent.clear(7);
    assert!(!recent.untouched_since(id(2), 6), "nobody remembers");
    assert!(recent.untouched_since(id(2), 7));
}
