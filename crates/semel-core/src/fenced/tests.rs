use proptest::prelude::*;

use super::*;
use crate::invariants::{fence_never_falls, fenced, settled_is_final};
use crate::{Fence, Fingerprint, Owner, RecordId, Reply};

const NOW: u64 = 1_000;
const DURATION: Duration = Duration::from_millis(30);

/// Where the record stands, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum On {
    Nothing,
    Leased,
    /// Its lease runs out at this very moment.
    RunsOut,
    Abandoned,
    Held,
    Released,
    /// Settled with the very outcome that the write brings.
    Answer,
    /// Settled with another.
    OtherAnswer,
    CalledAbandoned,
}

/// Until when the record lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Life {
    Live,
    /// It expires at this very moment.
    Expires,
    Expired,
}

/// What the writer shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Current,
    /// A lease that another attempt's has outdated.
    Superseded,
    /// A lease that the same attempt had before.
    Earlier,
    /// The same fence from another life of the record.
    OtherLife,
    /// The same fence and owner, for another request.
    OtherRequest,
}

#[derive(Clone, Copy, Debug)]
enum Expect {
    Write,
    Already,
    Settled,
    Superseded,
    Gone,
}

type Of<T> = &'static [T];
type Row = (Of<Life>, Of<On>, Of<By>, [Expect; 4]);

const STATES: Of<On> = &[
    On::Nothing,
    On::Leased,
    On::RunsOut,
    On::Abandoned,
    On::Held,
    On::Released,
    On::Answer,
    On::OtherAnswer,
    On::CalledAbandoned,
];
const RECORDED: Of<On> = STATES.split_at(1).1;
const LEASED: Of<On> = &[On::Leased, On::RunsOut, On::Abandoned];
const HELD: Of<On> = &[On::Held];
const RELEASED: Of<On> = &[On::Released];
const UNSETTLED: Of<On> = RECORDED.split_at(5).0;
const SETTLED: Of<On> = RECORDED.split_at(5).1;
const ANSWER: Of<On> = SETTLED.split_at(1).0;
const OTHERWISE: Of<On> = SETTLED.split_at(1).1;

const ALWAYS: Of<Life> = &[Life::Live, Life::Expires, Life::Expired];
const LIVE: Of<Life> = &[Life::Live];
const OVER: Of<Life> = &[Life::Expires, Life::Expired];

const ANY: Of<By> = &[By::Current, By::Superseded, By::Earlier, By::OtherLife, By::OtherRequest];
const CURRENT: Of<By> = ANY.split_at(1).0;
const STALE: Of<By> = ANY.split_at(1).1.split_at(3).0;
const FOREIGN: Of<By> = ANY.split_at(4).1;

use Expect::{Already, Gone, Settled, Superseded, Write};

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // life   record              lease     renew       settle      release     hold
    (ALWAYS, &[On::Nothing],      ANY,     [Gone,       Gone,       Gone,       Gone]),
    (OVER,   RECORDED,            ANY,     [Gone,       Gone,       Gone,       Gone]),
    (LIVE,   RECORDED,            FOREIGN, [Gone,       Gone,       Gone,       Gone]),
    (LIVE,   UNSETTLED,           STALE,   [Superseded, Superseded, Superseded, Superseded]),
    (LIVE,   SETTLED,             STALE,   [Settled,    Settled,    Settled,    Settled]),
    (LIVE,   LEASED,              CURRENT, [Write,      Write,      Write,      Write]),
    (LIVE,   HELD,                CURRENT, [Superseded, Write,      Superseded, Already]),
    (LIVE,   RELEASED,            CURRENT, [Superseded, Superseded, Already,    Superseded]),
    (LIVE,   ANSWER,              CURRENT, [Settled,    Already,    Settled,    Settled]),
    (LIVE,   OTHERWISE,           CURRENT, [Settled,    Settled,    Settled,    Settled]),
];

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn answer() -> Settlement {
    Settlement::Completed(Reply::new("answer"))
}

fn lease(print: u8, number: u64, who: u128) -> Lease {
    Lease::new(
        RecordId::from_bytes([1; 32]),
        Fingerprint::from_bytes([print; 32]),
        Fence::new(number).unwrap(),
        Owner::from_u128(who),
        // A lease that ran out long ago, as far as its holder knows: only the store's record counts.
        at(1),
        at(2),
    )
}

fn shown(by: By) -> Lease {
    match by {
        By::Current => lease(7, 3, 9),
        By::Superseded => lease(7, 2, 8),
        By::Earlier => lease(7, 2, 9),
        By::OtherLife => lease(7, 3, 8),
        By::OtherRequest => lease(6, 3, 9),
    }
}

fn record(on: On, life: Life) -> Option<Record> {
    let state = match on {
        On::Nothing => return None,
        On::Leased => State::Leased { until: at(NOW + 1) },
        On::RunsOut => State::Leased { until: at(NOW) },
        On::Abandoned => State::Leased { until: at(NOW - 1) },
        On::Held => State::Held,
        On::Released => State::Released,
        On::Answer => State::Settled(answer()),
        On::OtherAnswer => State::Settled(Settlement::Failed(Reply::new("answer"))),
        On::CalledAbandoned => State::Settled(Settlement::Abandoned),
    };
    let expires = match life {
        Life::Live => NOW + 10,
        Life::Expires => NOW,
        Life::Expired => NOW - 1,
    };
    Some(Record {
        fingerprint: Fingerprint::from_bytes([7; 32]),
        created: at(NOW - 50),
        expires: at(expires),
        fence: Fence::new(3).unwrap(),
        owner: Owner::from_u128(9),
        state,
    })
}

/// The four writes, in the order of the table's columns.
fn writes(record: Option<&Record>, lease: &Lease, now: Timestamp) -> [Transition; 4] {
    [
        renew(record, lease, DURATION, now),
        settle(record, lease, &answer(), now),
        release(record, lease, Release::Retry, now),
        release(record, lease, Release::Hold, now),
    ]
}

/// What each of the writes makes of a record, when it writes.
fn written(before: &Record) -> [Record; 4] {
    let until = at(NOW + 30);
    let with = |state| Record { state, ..before.clone() };
    let renewed = Record {
        // The record outlives its renewed lease.
        expires: until,
        ..with(State::Leased { until })
    };
    [renewed, with(State::Settled(answer())), with(State::Released), with(State::Held)]
}

fn transition(expect: Expect, before: Option<&Record>, column: usize) -> Transition {
    match expect {
        Write => Transition::Write(written(before.unwrap())[column].clone()),
        Already => Transition::Already,
        Superseded => Transition::Refused(Refusal::Superseded),
        Gone => Transition::Refused(Refusal::Gone),
        Settled => match &before.unwrap().state {
            State::Settled(settlement) => Transition::Refused(Refusal::Settled {
                settlement: settlement.clone(),
                expires: at(NOW + 10),
            }),
            state => panic!("{state:?} has no settlement"),
        },
    }
}

fn expected(life: Life, on: On, by: By) -> [Expect; 4] {
    let rows: Vec<_> = TABLE
        .iter()
        .filter(|(lives, states, leases, _)| {
            lives.contains(&life) && states.contains(&on) && leases.contains(&by)
        })
        .map(|row| row.3)
        .collect();
    assert_eq!(rows.len(), 1, "the table says {rows:?} for {life:?} {on:?} {by:?}");
    rows[0]
}

#[test]
fn every_write_agrees_with_the_table() {
    for &life in ALWAYS {
        for &on in STATES {
            for &by in ANY {
                let before = record(on, life);
                let done = writes(before.as_ref(), &shown(by), at(NOW));
                let expects = expected(life, on, by);
                for (column, (done, expect)) in done.into_iter().zip(expects).enumerate() {
                    let expected = transition(expect, before.as_ref(), column);
                    assert_eq!(done, expected, "{life:?} {on:?} {by:?}, column {column}");
                }
            }
        }
    }
}

#[test]
fn a_renewal_does_not_shorten_the_life_of_the_record() {
    let before = Record { expires: at(NOW + 100), ..record(On::Leased, Life::Live).unwrap() };
    let Transition::Write(after) = renew(Some(&before), &shown(By::Current), DURATION, at(NOW))
    else {
        panic!("a current lease can be renewed");
    };
    assert_eq!(after.expires, at(NOW + 100));
}

/// This is how `hold` resolves itself: its holder comes back with the outcome, and every attempt after
/// that is given it.
#[test]
fn a_held_record_is_settled_by_its_holder_only() {
    let held = record(On::Held, Life::Live).unwrap();
    let stranger = settle(Some(&held), &shown(By::OtherLife), &answer(), at(NOW));
    assert_eq!(stranger, Transition::Refused(Refusal::Superseded));

    let holder = shown(By::Current);
    let Transition::Write(settled) = settle(Some(&held), &holder, &answer(), at(NOW)) else {
        panic!("the holder may settle");
    };
    let again = settle(Some(&settled), &holder, &answer(), at(NOW));
    assert_eq!(again, Transition::Already);
}

/// Mostly close together, so that boundaries are met; sometimes at the ends of time.
fn moments() -> impl Strategy<Value = Timestamp> {
    prop_oneof![6 => 0..40_u64, 1 => Just(u64::MAX), 1 => any::<u64>()].prop_map(at)
}

fn states() -> impl Strategy<Value = State> {
    prop_oneof![
        4 => moments().prop_map(|until| State::Leased { until }),
        2 => Just(State::Held),
        1 => Just(State::Released),
        1 => Just(State::Settled(answer())),
        1 => any::<u8>().prop_map(|b| State::Settled(Settlement::Failed(Reply::new(vec![b])))),
        1 => Just(State::Settled(Settlement::Abandoned)),
    ]
}

prop_compose! {
    fn leases()(print in 0..2_u8, number in 1..4_u64, who in 0..2_u128) -> Lease {
        lease(print, number, who)
    }
}

prop_compose! {
    fn records()(
        like in leases(), created in moments(), expires in moments(), state in states(),
    ) -> Record {
        let (fingerprint, fence, owner) = (like.fingerprint(), like.fence(), like.owner());
        Record { fingerprint, created, expires, fence, owner, state }
    }
}

proptest! {
    #[test]
    fn only_the_current_lease_of_a_live_record_writes(
        record in records(), lease in leases(), now in moments(),
    ) {
        for write in writes(Some(&record), &lease, now) {
            if let Transition::Write(after) = write {
                prop_assert!(fenced(Some(&record), Some(&after), &lease));
                prop_assert!(settled_is_final(&record, Some(&after), now));
                prop_assert!(fence_never_falls(&record, &after));
                prop_assert!(!record.is_expired(now));
                prop_assert_eq!(record.fingerprint, lease.fingerprint());
            }
        }
    }

    #[test]
    fn a_write_changes_only_the_state_and_lengthens_the_life(
        record in records(), lease in leases(), now in moments(),
    ) {
        for write in writes(Some(&record), &lease, now) {
            if let Transition::Write(after) = write {
                prop_assert!(after.expires >= record.expires);
                if let State::Leased { until } = after.state {
                    prop_assert!(after.expires >= until);
                    // The holder may know of a longer lease from before the clock was set back.
                    let granted = match record.state {
                        State::Leased { until } => until,
                        _ => Timestamp::ZERO,
                    };
                    prop_assert!(until >= granted);
                }
                let same = Record { state: record.state.clone(), expires: record.expires, ..after };
                prop_assert_eq!(&same, &record);
            }
        }
    }

    /// A write whose reply was lost is repeated: the second try recognises the first.
    #[test]
    fn a_repeated_write_is_recognised(
        record in records(), lease in leases(), now in moments(),
    ) {
        for (column, write) in writes(Some(&record), &lease, now).into_iter().enumerate() {
            if let Transition::Write(after) = write {
                let again = &writes(Some(&after), &lease, now)[column];
                // A repeated renewal is not recognised, and has the same effect.
                let landed = if column == 0 { Transition::Write(after) } else { Transition::Already };
                prop_assert_eq!(again, &landed);
            }
        }
    }
}
