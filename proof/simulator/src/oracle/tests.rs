//! Whether a process may execute what it has executed: reported to the oracle by hand, without an engine.

use std::time::Duration;

use semel_core::{
    Attempt, Claim, Fence, Lease, Outcome, Owner, Policy, Refusal, Release, Reply, Settlement,
    Timestamp,
};
use semel_store::{Released, Settled};

use super::{Ended, Moment, Oracle, Verdict};
use crate::Rule;
use crate::disk::{ClaimSent, LeaseSent};
use crate::plan::{Plan, fingerprint};
use crate::random::Random;

const LEASE: Duration = Duration::from_secs(2);

/// The reported events of a run with two nodes and one key.
struct Story {
    oracle: Oracle,
    policy: Policy,
    seconds: u64,
}

// === impl Story ===

impl Story {
    /// Attempt 0 has executed on node 0, and its lease has run out without its knowledge.
    fn of_a_holder() -> Self {
        let mut plan = Plan::draw(&mut Random::new(1));
        let policy = Policy::builder().lease(LEASE).build().expect("a fine policy");
        (plan.nodes, plan.keys[0].policy) = (2, policy.clone());
        let mut story = Self { oracle: Oracle::new(&plan), policy, seconds: 0 };
        story.attempt(0);
        story.granted(0, 1);
        story.begins(0, 1).expect("the first");
        story.oracle.troubled(None, Duration::from_mins(1));
        let (moment, ended) = (story.moment(), Ended::With(Outcome::Completed(reply())));
        story.oracle.ends(moment, 0, ended);
        story.seconds = 10;
        story
    }

    fn moment(&self) -> Moment {
        let at = Duration::from_secs(self.seconds);
        Moment { at, now: Timestamp::ZERO.plus(at) }
    }

    /// The next attempt, on this node.
    fn attempt(&mut self, node: usize) {
        let owner = owner(self.oracle.attempts.len());
        let moment = self.moment();
        self.oracle.attempt(moment, (0, node), fingerprint(0, 0), owner).expect("a new owner");
    }

    fn granted(&mut self, attempt: usize, fence: u64) {
        let (id, moment) = (self.oracle.keys[0].id, self.moment());
        let claim = Attempt::new(id, fingerprint(0, 0), owner(attempt));
        let sent = ClaimSent::new(&claim, &self.policy);
        let until = moment.now.plus(LEASE);
        let expires = moment.now.plus(self.policy.ttl());
        let fence = Fence::new(fence).expect("a fence");
        let lease = Lease::new(id, sent.fingerprint, fence, sent.owner, until, expires);
        self.oracle.claimed(moment, &sent, &Claim::Execute(lease)).expect("granted");
    }

    fn begins(&mut self, attempt: usize, fence: u64) -> Verdict {
        let moment = self.moment();
        self.oracle.begins(moment, attempt, Fence::new(fence))
    }

    fn sent(&self, attempt: usize, fence: u64) -> LeaseSent {
        let (id, fence) = (self.oracle.keys[0].id, Fence::new(fence).expect("a fence"));
        LeaseSent { id, fingerprint: fingerprint(0, 0), fence, owner: owner(attempt) }
    }

    /// Settles the outcome of attempt 0 under the lease of this one.
    fn settles(&mut self, attempt: usize, fence: u64, settled: &Settled) {
        let (moment, sent) = (self.moment(), self.sent(attempt, fence));
        let settlement = Settlement::Completed(reply());
        self.oracle.settled(moment, sent, &settlement, settled).expect("as it should be");
    }

    fn is_superseded(&mut self) {
        self.settles(0, 1, &Settled::Refused(Refusal::Superseded));
    }

    fn releases(&mut self, attempt: usize, fence: u64) {
        let (moment, sent) = (self.moment(), self.sent(attempt, fence));
        let released = self.oracle.released(moment, sent, Release::Retry, &Released::Done);
        released.expect("as it should be");
    }

    #[track_caller]
    fn is_self_takeover(verdict: Verdict) {
        assert_eq!(verdict.expect_err("it takes over from itself").rule, Rule::SelfTakeover);
    }
}

fn owner(attempt: usize) -> Owner {
    Owner::from_u128(attempt as u128 + 1)
}

fn reply() -> Reply {
    Reply::new(b"done".to_vec())
}

#[test]
fn a_holder_that_its_own_process_superseded_is_not_done() {
    let mut story = Story::of_a_holder();
    story.attempt(0);
    story.granted(1, 2);
    story.is_superseded();
    assert!(story.oracle.is_waited_for(story.oracle.keys[0].id, 0));
    Story::is_self_takeover(story.begins(1, 2));
    assert!(story.oracle.ended(story.moment()).is_err(), "its outcome is lost");
}

#[test]
fn a_lease_that_is_handed_back_beside_it_ends_nothing() {
    let mut story = Story::of_a_holder();
    story.attempt(0);
    story.granted(1, 2);
    story.is_superseded();
    story.releases(1, 2);
    story.attempt(0);
    story.granted(2, 3);
    Story::is_self_takeover(story.begins(2, 3));
}

#[test]
fn a_holder_that_another_process_superseded_is_done() {
    let mut story = Story::of_a_holder();
    story.attempt(1);
    story.granted(1, 2);
    story.is_superseded();
    story.seconds = 20;
    story.attempt(0);
    story.granted(2, 3);
    story.begins(2, 3).expect("the lease was another's in between");
}

#[test]
fn an_execution_under_a_lease_of_its_process_is_concluded_when_it_has_settled() {
    let mut story = Story::of_a_holder();
    story.attempt(0);
    story.granted(1, 2);
    story.is_superseded();
    story.settles(1, 2, &Settled::Recorded);
    story.oracle.ended(story.moment()).expect("it is written");
    assert!(!story.oracle.is_waited_for(story.oracle.keys[0].id, 0));
}

#[test]
fn another_process_may_execute_while_it_is_superseded() {
    let mut story = Story::of_a_holder();
    story.attempt(0);
    story.granted(1, 2);
    story.is_superseded();
    story.seconds = 20;
    story.attempt(1);
    story.granted(2, 3);
    story.begins(2, 3).expect("a lease that ran out");
    story.seconds = 30;
    story.attempt(0);
    story.granted(3, 4);
    story.begins(3, 4).expect("another had it in between");
}
