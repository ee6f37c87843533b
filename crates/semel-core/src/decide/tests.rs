use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::invariants::{fence_never_falls, mismatch_is_inert, settled_is_final};
use crate::{Fingerprint, Owner, RecordId, Reply};

const NOW: u64 = 1_000;
const LEASE: u64 = 30;
const TTL: u64 = 100;
const ID: RecordId = RecordId::from_bytes([1; 32]);

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
    Completed,
    Failed,
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

/// Whether it is equal to the record's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Is {
    Same,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expect {
    FirstLease,
    /// The lease that the owner had, granted again.
    SameLease,
    NextLease,
    Replay,
    /// The record is settled as abandoned, and replayed as such.
    CallAbandoned,
    InFlight,
    /// A late copy of a claim whose owner has released.
    Over,
    Mismatch,
    Unknown,
}

/// A column of the table: the values that a row is about.
type Of<T> = &'static [T];
type Row = (Of<Life>, Of<On>, Of<Is>, Of<Is>, Of<OnAbandoned>, Expect);

const STATES: Of<On> = &[
    On::Nothing,
    On::Leased,
    On::RunsOut,
    On::Abandoned,
    On::Held,
    On::Released,
    On::Completed,
    On::Failed,
    On::CalledAbandoned,
];
const RECORDED: Of<On> = STATES.split_at(1).1;
const RAN_OUT: Of<On> = &[On::RunsOut, On::Abandoned];
const SETTLED: Of<On> = &[On::Completed, On::Failed, On::CalledAbandoned];
const NOTHING: Of<On> = &[On::Nothing];
const LEASED: Of<On> = &[On::Leased];
const HELD: Of<On> = &[On::Held];
const RELEASED: Of<On> = &[On::Released];

const ALWAYS: Of<Life> = &[Life::Live, Life::Expires, Life::Expired];
const LIVE: Of<Life> = &[Life::Live];
const OVER: Of<Life> = &[Life::Expires, Life::Expired];

const ANY: Of<Is> = &[Is::Same, Is::Other];
const SAME: Of<Is> = &[Is::Same];
const OTHER: Of<Is> = &[Is::Other];

const ALL: Of<OnAbandoned> = &[REEXECUTE[0], FAIL[0], HOLD[0]];
const REEXECUTE: Of<OnAbandoned> = &[OnAbandoned::Reexecute];
const FAIL: Of<OnAbandoned> = &[OnAbandoned::Fail];
const HOLD: Of<OnAbandoned> = &[OnAbandoned::Hold];

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // life   record    fingerprint  owner  on_abandoned  expected
    (ALWAYS, NOTHING,   ANY,         ANY,   ALL,          Expect::FirstLease),
    (OVER,   RECORDED,  ANY,         ANY,   ALL,          Expect::FirstLease),
    (LIVE,   RECORDED,  OTHER,       ANY,   ALL,          Expect::Mismatch),
    (LIVE,   LEASED,    SAME,        SAME,  ALL,          Expect::SameLease),
    (LIVE,   LEASED,    SAME,        OTHER, ALL,          Expect::InFlight),
    (LIVE,   RAN_OUT,   SAME,        SAME,  ALL,          Expect::SameLease),
    (LIVE,   RAN_OUT,   SAME,        OTHER, REEXECUTE,    Expect::NextLease),
    (LIVE,   RAN_OUT,   SAME,        OTHER, FAIL,         Expect::CallAbandoned),
    (LIVE,   RAN_OUT,   SAME,        OTHER, HOLD,         Expect::Unknown),
    (LIVE,   HELD,      SAME,        ANY,   ALL,          Expect::Unknown),
    (LIVE,   RELEASED,  SAME,        SAME,  ALL,          Expect::Over),
    (LIVE,   RELEASED,  SAME,        OTHER, ALL,          Expect::NextLease),
    (LIVE,   SETTLED,   SAME,        ANY,   ALL,          Expect::Replay),
];

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn fence(number: u64) -> Fence {
    Fence::new(number).unwrap()
}

fn fingerprint(is: Is) -> Fingerprint {
    Fingerprint::from_bytes([is as u8; 32])
}

fn owner(is: Is) -> Owner {
    Owner::from_u128(is as u128)
}

fn policy(on_abandoned: OnAbandoned) -> Policy {
    Policy::builder()
        .lease(Duration::from_millis(LEASE))
        .ttl(Duration::from_millis(TTL))
        .on_abandoned(on_abandoned)
        .build()
        .unwrap()
}

fn state(on: On) -> Option<State> {
    let reply = Reply::new("answer");
    Some(match on {
        On::Nothing => return None,
        On::Leased => State::Leased { until: at(NOW + 1) },
        On::RunsOut => State::Leased { until: at(NOW) },
        On::Abandoned => State::Leased { until: at(NOW - 1) },
        On::Held => State::Held,
        On::Released => State::Released,
        On::Completed => State::Settled(Settlement::Completed(reply)),
        On::Failed => State::Settled(Settlement::Failed(reply)),
        On::CalledAbandoned => State::Settled(Settlement::Abandoned),
    })
}

fn record(on: On, life: Life) -> Option<Record> {
    let expires = match life {
        Life::Live => NOW + 50,
        Life::Expires => NOW,
        Life::Expired => NOW - 1,
    };
    state(on).map(|state| Record {
        fingerprint: fingerprint(Is::Same),
        created: at(NOW - 50),
        expires: at(expires),
        fence: fence(3),
        owner: owner(Is::Same),
        state,
    })
}

/// The decision, spelt out with every field.
fn decision(expect: Expect, before: Option<Record>, attempt: &Attempt) -> Decision {
    let lease = |number, created, expires| {
        let (fingerprint, owner) = (attempt.fingerprint(), attempt.owner());
        let (fence, until, expires) = (fence(number), at(NOW + 30), at(expires));
        let state = State::Leased { until };
        Decision {
            claim: Claim::Execute(Lease::new(ID, fingerprint, fence, owner, until, expires)),
            write: Some(Record { fingerprint, created: at(created), expires, fence, owner, state }),
        }
    };
    let read = |claim| Decision { claim, write: None };
    let replay = |settlement| Claim::Replay { settlement, expires: at(NOW + 50) };
    match expect {
        Expect::FirstLease => lease(1, NOW, NOW + 100),
        Expect::SameLease => lease(3, NOW - 50, NOW + 100),
        Expect::NextLease => lease(4, NOW - 50, NOW + 100),
        Expect::InFlight => read(Claim::InFlight { until: at(NOW + 1) }),
        Expect::Over => read(Claim::InFlight { until: at(NOW) }),
        Expect::Mismatch => read(Claim::Mismatch),
        Expect::Unknown => read(Claim::Unknown),
        Expect::Replay => match before.unwrap().state {
            State::Settled(settlement) => read(replay(settlement)),
            state => panic!("{state:?} cannot be replayed"),
        },
        Expect::CallAbandoned => Decision {
            claim: replay(Settlement::Abandoned),
            write: before
                .map(|record| Record { state: State::Settled(Settlement::Abandoned), ..record }),
        },
    }
}

fn expected(life: Life, on: On, print: Is, who: Is, policy: OnAbandoned) -> Expect {
    let rows: Vec<Expect> = TABLE
        .iter()
        .filter(|(lives, states, prints, owners, policies, _)| {
            lives.contains(&life)
                && states.contains(&on)
                && prints.contains(&print)
                && owners.contains(&who)
                && policies.contains(&policy)
        })
        .map(|row| row.5)
        .collect();
    let case = (life, on, print, who, policy);
    assert_eq!(rows.len(), 1, "the table says {rows:?} for {case:?}");
    rows[0]
}

#[test]
fn every_case_is_decided_by_the_table() {
    let mut cases = 0;
    for &life in ALWAYS {
        for &on in STATES {
            for (&print, &who) in ANY.iter().flat_map(|p| ANY.iter().map(move |w| (p, w))) {
                for &on_abandoned in ALL {
                    let attempt = Attempt::new(ID, fingerprint(print), owner(who));
                    let before = record(on, life);
                    let policy = policy(on_abandoned);
                    let decided = decide(before.as_ref(), &attempt, &policy, at(NOW));
                    let expect = expected(life, on, print, who, on_abandoned);
                    let case = (life, on, print, who, on_abandoned);
                    assert_eq!(decided, decision(expect, before, &attempt), "{case:?}");
                    cases += 1;
                }
            }
        }
    }
    assert_eq!(cases, 3 * 9 * 2 * 2 * 3);
}

/// Else its outcome could be forgotten minutes after it was settled, and its retry would execute again.
#[test]
fn a_lease_granted_near_the_end_keeps_the_record_for_a_whole_retention() {
    for on in [On::Released, On::Abandoned] {
        let ending = Record { expires: at(NOW + 1), ..record(on, Life::Live).unwrap() };
        let attempt = Attempt::new(ID, fingerprint(Is::Same), owner(Is::Other));
        let decided = decide(Some(&ending), &attempt, &policy(REEXECUTE[0]), at(NOW));
        assert_eq!(decided.write.unwrap().expires, at(NOW + TTL), "{on:?}");
    }
}

/// A policy with shorter durations than the one before, or a clock that was set back.
#[test]
fn a_lease_never_shortens_the_life_of_its_record() {
    let lasting = at(NOW + TTL + 1);
    for (on, who) in [(On::Released, Is::Other), (On::Abandoned, Is::Other), (On::Leased, Is::Same)]
    {
        let long = Record { expires: lasting, ..record(on, Life::Live).unwrap() };
        let attempt = Attempt::new(ID, fingerprint(Is::Same), owner(who));
        let decided = decide(Some(&long), &attempt, &policy(REEXECUTE[0]), at(NOW));
        assert_eq!(decided.write.unwrap().expires, lasting, "{on:?}");
    }
}

fn states() -> impl Strategy<Value = State> {
    let reply = any::<u8>().prop_map(|byte| Reply::new(vec![byte]));
    prop_oneof![
        4 => moments().prop_map(|until| State::Leased { until }),
        1 => Just(State::Held),
        1 => Just(State::Released),
        1 => reply.clone().prop_map(|reply| State::Settled(Settlement::Completed(reply))),
        1 => reply.prop_map(|reply| State::Settled(Settlement::Failed(reply))),
        1 => Just(State::Settled(Settlement::Abandoned)),
    ]
}

/// Mostly close together, so that boundaries are met; sometimes at the ends of time.
fn moments() -> impl Strategy<Value = Timestamp> {
    prop_oneof![6 => 0..40_u64, 1 => Just(u64::MAX), 1 => any::<u64>()].prop_map(at)
}

prop_compose! {
    fn records()(
        print in 0..2_u8,
        created in moments(),
        expires in moments(),
        number in prop_oneof![1..9_u64, Just(u64::MAX)],
        who in 0..3_u128,
        state in states(),
    ) -> Record {
        let (fingerprint, owner) = (Fingerprint::from_bytes([print; 32]), Owner::from_u128(who));
        Record { fingerprint, created, expires, fence: fence(number), owner, state }
    }
}

prop_compose! {
    fn attempts()(print in 0..2_u8, who in 0..3_u128) -> Attempt {
        Attempt::new(ID, Fingerprint::from_bytes([print; 32]), Owner::from_u128(who))
    }
}

prop_compose! {
    fn policies()(lease in 10..30_u64, more in 1..30_u64, which in 0..ALL.len()) -> Policy {
        Policy::builder()
            .lease(Duration::from_millis(lease))
            .ttl(Duration::from_millis(lease + more))
            .on_abandoned(ALL[which])
            .build()
            .unwrap()
    }
}

/// Whether the grant has the right fence: a new life's first, the same owner's again, or the next.
fn in_order(before: Option<&Record>, after: &Record) -> bool {
    match before {
        None => after.fence == Fence::FIRST,
        Some(record) if record.owner == after.owner && record.fence == after.fence => {
            matches!(record.state, State::Leased { .. }) || record.fence.next() == record.fence
        }
        Some(record) => after.fence == record.fence.next(),
    }
}

proptest! {
    /// Its attempt is over: a lease granted to it would have no holder.
    #[test]
    fn an_owner_that_has_released_is_never_granted_again(
        record in records(), attempt in attempts(), policy in policies(), now in moments(),
    ) {
        let record = Record { owner: attempt.owner(), state: State::Released, ..record };
        prop_assume!(!record.is_expired(now));
        let decided = decide(Some(&record), &attempt, &policy, now);
        prop_assert!(!matches!(decided.claim, Claim::Execute(_)), "{:?}", decided.claim);
        prop_assert_eq!(decided.write, None);
    }

    #[test]
    fn an_expired_record_is_no_record(
        record in records(), attempt in attempts(), policy in policies(), now in moments(),
    ) {
        prop_assume!(record.is_expired(now));
        let without = decide(None, &attempt, &policy, now);
        prop_assert_eq!(decide(Some(&record), &attempt, &policy, now), without);
    }

    #[test]
    fn a_mismatch_is_inert_in_every_state(
        record in records(), attempt in attempts(), policy in policies(), now in moments(),
    ) {
        prop_assume!(!record.is_expired(now) && record.fingerprint != attempt.fingerprint());
        let Decision { claim, write } = decide(Some(&record), &attempt, &policy, now);
        prop_assert!(mismatch_is_inert(&claim, write.as_ref()));
    }

    #[test]
    fn a_decision_keeps_what_is_settled_and_never_lowers_a_fence(
        record in records(), attempt in attempts(), policy in policies(), now in moments(),
    ) {
        let after = decide(Some(&record), &attempt, &policy, now).write.unwrap_or(record.clone());
        prop_assert!(settled_is_final(&record, Some(&after), now));
        // A life that begins in the moment in which another began has an equal `created`.
        if !record.is_expired(now) {
            prop_assert!(fence_never_falls(&record, &after));
        }
    }

    #[test]
    fn a_grant_is_in_fenced_order_and_within_the_life_of_its_record(
        record in proptest::option::of(records()),
        attempt in attempts(), policy in policies(), now in moments(),
    ) {
        let Decision { claim, write } = decide(record.as_ref(), &attempt, &policy, now);
        if let Claim::Execute(lease) = claim {
            let after = write.expect("a granted lease is written");
            let live = record.as_ref().filter(|r| !r.is_expired(now));
            // A repeated claim never shortens the lease its holder may already know of.
            let granted = match live {
                Some(Record { state: State::Leased { until }, owner, .. })
                    if *owner == attempt.owner() => *until,
                _ => Timestamp::ZERO,
            };
            let until = now.plus(policy.lease()).max(granted);
            prop_assert!(in_order(live, &after));
            prop_assert_eq!(&after.state, &State::Leased { until });
            prop_assert!(after.expires >= until);
            prop_assert!(after.expires >= now.plus(policy.ttl()));
            prop_assert!(after.is_current(&lease));
            prop_assert_eq!((lease.until(), lease.expires()), (until, after.expires));
            prop_assert_eq!(after.fingerprint, attempt.fingerprint());
            prop_assert_eq!(after.owner, attempt.owner());
        } else if let Some(after) = write {
            prop_assert_eq!(after.state, State::Settled(Settlement::Abandoned));
        }
    }
}
