//! Mistakes that are planted on purpose: the checker must find each, and name the rule that it breaks.
//!
//! Each run has the faults that bring its mistake out. What chance decides is tried again with other
//! seeds, a few times.

mod support;

use std::process::Command;

use semel_planted::{Bug, VARIABLE};
use semel_torture::checker::Rule;
use semel_torture::run::{Plan, run};
use semel_torture::{Kind, StoreKind};

use support::{one_at_a_time, semel};

const TRIES: u64 = 5;

/// What brings a mistake out.
struct Hunt {
    bug: Bug,
    store: StoreKind,
    seconds: u64,
    kinds: &'static [Kind],
    /// Of a hundred keys, how many take longer than the lease.
    slow_percent: u64,
    rule: Rule,
}

// === impl Hunt ===

impl Hunt {
    fn is_successful(&self) {
        let _turn = one_at_a_time();
        let mut reports = Vec::new();
        for seed in 1..=self.tries() {
            let done = run(&self.plan(seed)).expect("a run");
            assert_eq!(done.failure, None, "{}", done.report);
            if let Some(kept) = &done.kept {
                std::fs::remove_dir_all(kept).expect("removed");
            }
            if done.report.broken().contains(&self.rule.as_str()) {
                println!("{}: found by {} in run {seed}", self.bug.as_str(), self.rule);
                return;
            }
            reports.push(done.report.to_string());
        }
        panic!("{} was not found: {}", self.bug.as_str(), reports.join("\n"));
    }

    /// Few claims are late at a time, so that not every run has one that matters.
    fn tries(&self) -> u64 {
        if self.kinds.contains(&Kind::BackLate) { TRIES * 3 } else { TRIES }
    }

    fn plan(&self, seed: u64) -> Plan {
        let mut plan = Plan::new(self.store, seed, self.seconds, semel());
        plan.clients = 32;
        plan.slow_percent = self.slow_percent;
        plan.kinds = Some(self.kinds.to_vec());
        if self.kinds.contains(&Kind::BackLate) {
            // A claim that comes late finds something that was handed back; and few enough are late at once that the
            // breaker lets them be sent again.
            (plan.clients, plan.refused_percent) = (8, 80);
        }
        let mut set = |name: &str, value: &str| plan.environment.push((name.into(), value.into()));
        set(VARIABLE, self.bug.as_str());
        // All gateways have a cache, not just some.
        set("SEMEL_LIMITS_CACHE_BYTES", "2000000");
        plan
    }
}

/// A test for each mistake.
macro_rules! hunts {
    ($($name:ident: $bug:ident on $store:ident for $seconds:literal s
        [$($kind:ident)*] $slow:literal % breaks $rule:ident;)+) => {
        $(#[test]
        fn $name() {
            Hunt {
                bug: Bug::$bug,
                store: StoreKind::$store,
                seconds: $seconds,
                kinds: &[$(Kind::$kind),*],
                slow_percent: $slow,
                rule: Rule::$rule,
            }
            .is_successful();
        })+

        /// The bugs of these hunts.
        pub(crate) const HUNTED: &[Bug] = &[$(Bug::$bug),+];
    };
}

hunts! {
    no_fence_check: NoFenceCheck on Redis for 6 s [GatewayPause BackBlackHole] 30 % breaks Fenced;
    renew_after_expiry: RenewAfterExpiry on Redis for 6 s [GatewayPause BackBlackHole] 30 % breaks Fenced;
    answer_before_settle: AnswerBeforeSettle on Redis for 4 s [BackLatency] 5 % breaks SettledIsFinal;
    settle_not_synced: SettleNotSynced on Embedded for 5 s [GatewayKill] 5 % breaks OneAnswer;
    fingerprint_ignored: FingerprintIgnored on Embedded for 3 s [] 5 % breaks MismatchInert;
    scope_dropped: ScopeDropped on Embedded for 3 s [] 5 % breaks ScopeCanary;
    cookies_replayed: CookiesReplayed on Embedded for 3 s [] 5 % breaks Cookies;
    body_not_drained: BodyNotDrained on Embedded for 3 s [] 5 % breaks DrainedBody;
    sweep_deletes_live_leases: SweepDeletesLiveLeases on Embedded for 3 s [] 5 % breaks OneLease;
    waiter_deletes_the_claim: WaiterDeletesTheClaim on Redis for 4 s [] 5 % breaks OneLease;
    execution_dies_with_client: ExecutionDiesWithClient on Embedded for 4 s [] 30 % breaks Detached;
    executes_before_claim: ExecutesBeforeClaim on Redis for 5 s [StoreKill] 5 % breaks ClaimFirst;
    gives_up_settling: GivesUpSettling on Redis for 5 s [StoreKill] 30 % breaks SettlingGivenUp;
    claims_past_own_execution: ClaimsPastOwnExecution on Redis for 6 s [ClockForward GatewayPause] 30 % breaks SelfTakeover;
    full_store_refuses_outcomes: FullStoreRefusesOutcomes on Redis for 7 s [StoreFull] 30 % breaks FullStore;
}

/// What takes long to bring out: `./test deep` runs these, and `./test` does not.
mod long {
    use super::*;

    hunts! {
        cache_answers_after_takeover: CacheAnswersAfterTakeover on Redis for 6 s [GatewayPause] 30 % breaks OneAnswer;
        claim_retried_without_owner: ClaimRetriedWithoutOwner on Redis for 12 s [BackLatency BackBlackHole GatewayPause] 5 % breaks HeldUnexecuted;
        grants_to_an_owner_that_released: GrantsToAnOwnerThatReleased on Redis for 20 s [BackLate] 5 % breaks HeldUnexecuted;
    }
}

#[test]
fn every_bug_is_hunted() {
    let is_hunted = |bug: &&Bug| HUNTED.contains(bug) || long::HUNTED.contains(bug);
    assert_eq!(Bug::ALL.iter().filter(is_hunted).count(), Bug::ALL.len());
}

/// The same program with no mistake named is as good as any other.
#[test]
fn nothing_is_found_where_nothing_is_planted() {
    let _turn = one_at_a_time();
    let kinds = [Kind::GatewayPause, Kind::GatewayKill, Kind::BackBlackHole, Kind::BackReset];
    let mut plan = Plan::new(StoreKind::Redis, 1, 6, semel());
    (plan.clients, plan.slow_percent, plan.kinds) = (32, 30, Some(kinds.to_vec()));
    let done = run(&plan).expect("a run");
    assert!(done.is_good(), "{:?}, kept in {:?}:\n{}", done.failure, done.kept, done.report);
    assert!(done.report.takeovers > 0, "{}", done.report);
}

/// A mistake in the name must not pass for a gateway without mistakes.
#[test]
fn an_unknown_name_is_refused() {
    let mut command = Command::new(semel());
    command.args(["gateway", "--store", "memory:"]).env(VARIABLE, "no-such-bug");
    let output = command.output().expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("claim-retried-without-owner"), "{said}");
}
