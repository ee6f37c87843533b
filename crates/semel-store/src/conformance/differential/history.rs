use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use semel_core::{Attempt, Claim, Lease, Owner, Release, Settlement, Timestamp};

use super::timed::agree;
use crate::conformance::Fixture;
use crate::conformance::trial::{EVERY_POLICY, Trial, completed, failed, id, request, rules};
use crate::{ManualClock, MemoryStore, Renewed, Store};

const KEYS: [&str; 3] = ["k1", "k2", "k3"];
const REQUESTS: [&str; 2] = ["pay 100", "pay 999"];
const STEPS_MAX: usize = 60;

/// One step of a history. A lease is named by a number that is taken modulo the leases there are.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Claim { key: usize, request: usize, owner: u128, policy: usize },
    Renew { lease: usize, units: u32 },
    Settle { lease: usize, outcome: usize },
    Release { lease: usize, hold: bool },
    Pass { units: u32 },
    Sweep { limit: usize },
    Reopen,
}

pub(super) fn histories() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 1..STEPS_MAX)
}

fn step() -> impl Strategy<Value = Step> {
    let lease = 0..8_usize;
    // Mostly the same request, or little else than mismatches would be seen.
    let request = prop_oneof![5 => Just(0), 1 => Just(1)];
    prop_oneof![
        10 => (0..KEYS.len(), request, 0..6_u128, 0..EVERY_POLICY.len()).prop_map(
            |(key, request, owner, policy)| Step::Claim { key, request, owner, policy }
        ),
        3 => (lease.clone(), 1..10_u32).prop_map(|(lease, units)| Step::Renew { lease, units }),
        3 => (lease.clone(), 0..4_usize).prop_map(|(lease, outcome)| Step::Settle { lease, outcome }),
        3 => (lease, any::<bool>()).prop_map(|(lease, hold)| Step::Release { lease, hold }),
        6 => (1..5_u32).prop_map(|units| Step::Pass { units }),
        1 => (0..4_usize).prop_map(|limit| Step::Sweep { limit }),
        1 => Just(Step::Reopen),
    ]
}

/// The store and the reference, side by side.
pub(super) struct Pair<F> {
    trial: Trial<F>,
    reference: MemoryStore,
    clock: ManualClock,
    /// Where both clocks are after the latest passing of time.
    moment: Timestamp,
    /// The leases granted so far: the store's, and the reference's.
    leases: Vec<(Lease, Lease)>,
}

// === impl Pair ===

impl<F: Fixture> Pair<F> {
    /// Plays a whole history; the first disagreement ends it.
    pub(super) async fn play(history: Vec<Step>) -> Result<(), TestCaseError> {
        let mut pair = Self::begin().await;
        for step in history {
            pair = pair.step(step).await?;
            for key in KEYS {
                let ours = pair.trial.inspect(id(key)).await;
                let reference = pair.reference.inspect(id(key)).await?;
                agree(&format!("the record of {key}"), ours, reference, F::CLOCK.tolerance())?;
            }
        }
        Ok(())
    }

    async fn begin() -> Self {
        let trial = Trial::<F>::begin().await;
        let moment = trial.now().await;
        let clock = ManualClock::at(moment);
        Self {
            reference: MemoryStore::with_clock(Arc::new(clock.clone())),
            trial,
            clock,
            moment,
            leases: Vec::new(),
        }
    }

    async fn step(mut self, step: Step) -> Result<Self, TestCaseError> {
        match step {
            Step::Claim { key, request, owner, policy } => {
                self.claim(key, request, owner, policy).await?;
            }
            Step::Renew { lease, units } => self.renew(lease, units).await?,
            Step::Settle { lease, outcome } => self.settle(lease, outcome).await?,
            Step::Release { lease, hold } => self.release(lease, hold).await?,
            Step::Pass { units } => self.pass(units).await,
            Step::Sweep { limit } => self.sweep(limit).await?,
            // Opening takes time of its own, which a clock that runs by itself would show.
            Step::Reopen if F::DURABLE && F::CLOCK.is_manual() => {
                self.trial = self.trial.reopen().await;
            }
            Step::Reopen => {}
        }
        Ok(self)
    }

    async fn claim(
        &mut self,
        key: usize,
        body: usize,
        owner: u128,
        policy: usize,
    ) -> Result<(), TestCaseError> {
        let owner = Owner::from_u128(owner);
        let attempt = Attempt::new(id(KEYS[key]), request(REQUESTS[body]), owner);
        let policy = rules(Self::lasting(2), Self::lasting(6), EVERY_POLICY[policy]);
        let ours = self.trial.claim_with(&attempt, &policy).await;
        let reference = self.reference.claim(&attempt, &policy).await?;
        if let (Claim::Execute(ours), Claim::Execute(reference)) = (&ours, &reference) {
            self.take_note(copy(ours), copy(reference));
        }
        agree("claim", ours, reference, F::CLOCK.tolerance())
    }

    async fn renew(&mut self, lease: usize, units: u32) -> Result<(), TestCaseError> {
        let duration = Self::lasting(units);
        let Some((ours, reference)) = pick(&mut self.leases, lease) else {
            return Ok(());
        };
        let our_answer = self.trial.renew(ours, duration).await;
        let their_answer = self.reference.renew(reference, duration).await?;
        for (lease, answer) in [(ours, &our_answer), (reference, &their_answer)] {
            if let Renewed::Until { until, expires } = answer {
                lease.renewed(*until, *expires);
            }
        }
        agree("renew", our_answer, their_answer, F::CLOCK.tolerance())
    }

    async fn settle(&mut self, lease: usize, outcome: usize) -> Result<(), TestCaseError> {
        let Some((ours, reference)) = pick(&mut self.leases, lease) else {
            return Ok(());
        };
        let outcome = outcome_number(outcome);
        let our_answer = self.trial.settle(ours, &outcome).await;
        let their_answer = self.reference.settle(reference, outcome).await?;
        agree("settle", our_answer, their_answer, F::CLOCK.tolerance())
    }

    async fn release(&mut self, lease: usize, hold: bool) -> Result<(), TestCaseError> {
        let Some((ours, reference)) = pick(&mut self.leases, lease) else {
            return Ok(());
        };
        let how = if hold { Release::Hold } else { Release::Retry };
        let our_answer = self.trial.release(ours, how).await;
        let their_answer = self.reference.release(reference, how).await?;
        agree("release", our_answer, their_answer, F::CLOCK.tolerance())
    }

    async fn pass(&mut self, units: u32) {
        let duration = F::UNIT * units;
        self.clock.advance(duration);
        self.moment = self.moment.plus(duration);
        // To a moment, not by a duration: what the verbs themselves took does not add up.
        self.trial.reach(self.moment).await;
    }

    /// Sweeps both. How much each deletes at a time is its own affair, but the records that can be
    /// seen afterwards must be the same.
    async fn sweep(&mut self, limit: usize) -> Result<(), TestCaseError> {
        let swept = self.trial.sweep(limit).await;
        prop_assert!(swept.deleted <= limit, "{swept:?} went beyond {limit}");
        self.reference.sweep(limit).await?;
        Ok(())
    }

    /// Keeps a lease for later use. If its claim was repeated it takes the place of the lease that
    /// the first answer carried: a holder that repeats its claim never saw that one.
    fn take_note(&mut self, ours: Lease, reference: Lease) {
        let same = |(lease, _): &(Lease, Lease)| {
            (lease.id(), lease.owner(), lease.fence()) == (ours.id(), ours.owner(), ours.fence())
        };
        self.leases.retain(|pair| !same(pair));
        self.leases.push((ours, reference));
    }

    /// So many units, and on a clock that runs by itself half a one more: time passes in whole
    /// units, so nothing ends at the moment of an operation.
    fn lasting(units: u32) -> Duration {
        let half = if F::CLOCK.is_manual() { Duration::ZERO } else { F::UNIT / 2 };
        F::UNIT * units + half
    }
}

fn pick(leases: &mut [(Lease, Lease)], number: usize) -> Option<(&mut Lease, &mut Lease)> {
    let index = number.checked_rem(leases.len())?;
    leases.get_mut(index).map(|(ours, theirs)| (ours, theirs))
}

fn outcome_number(number: usize) -> Settlement {
    match number {
        0 => completed("paid"),
        1 => completed(""),
        2 => failed("paid"),
        _ => Settlement::Abandoned,
    }
}

fn copy(lease: &Lease) -> Lease {
    Lease::new(
        lease.id(),
        lease.fingerprint(),
        lease.fence(),
        lease.owner(),
        lease.until(),
        lease.expires(),
    )
}
