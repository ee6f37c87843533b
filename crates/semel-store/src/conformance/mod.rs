//! The suite that holds a store to the contract of [`Store`](crate::Store).
//!
//! A store describes how it is made and how its time is moved in a [`Fixture`], and then has every
//! case run as a test of its own:
//!
//! ```
//! # use std::{sync::Arc, time::Duration};
//! # use semel_store::{ManualClock, MemoryStore};
//! use semel_store::conformance::{Fixture, FixtureClock};
//! use semel_store::store_conformance;
//!
//! struct Memory {
//!     store: MemoryStore,
//!     clock: ManualClock,
//! }
//!
//! impl Fixture for Memory {
//!     type Store = MemoryStore;
//!     const DURABLE: bool = false;
//!     const CLOCK: FixtureClock = FixtureClock::Manual;
//!     const UNIT: Duration = Duration::from_secs(1);
//!
//!     async fn make() -> Self {
//!         let clock = ManualClock::default();
//!         let store = MemoryStore::with_clock(Arc::new(clock.clone()));
//!         Self { store, clock }
//!     }
//!
//!     fn store(&self) -> &MemoryStore {
//!         &self.store
//!     }
//!
//!     async fn advance(&self, duration: Duration) {
//!         self.clock.advance(duration);
//!     }
//!
//!     async fn reopen(self) -> Self {
//!         Self::make().await
//!     }
//! }
//!
//! store_conformance!(memory, Memory);
//! ```
//!
//! The cases lie in one file per subject and are plain functions over a fixture, so that the suite
//! itself can be tested: `tests/conformance_bites.rs` runs them against stores with a planted
//! mistake. A case never sleeps; it lets the fixture's time pass, or waits for a condition.

mod fixture;
mod trial;

pub mod abandoned;
pub mod claim;
pub mod differential;
pub mod expiry;
pub mod fence;
pub mod health;
pub mod many;
pub mod mismatch;
pub mod owner;
pub mod races;
pub mod release;
pub mod renew;
pub mod replies;
pub mod settle;
pub mod sweep;
pub mod versions;

use std::pin::{Pin, pin};
use std::time::Duration;

pub use fixture::{Fixture, FixtureClock};

/// How long one case may take. A store that hangs must fail the suite, not stop it (I10).
const CASE_TIME_MAX: Duration = Duration::from_mins(5);

/// Runs one case to its end on several threads, within a limit.
///
/// # Panics
///
/// If the case fails or takes too long.
pub fn run(case: impl Future<Output = ()>) {
    // Erased, or the runtime would be compiled again for every case of every store.
    run_erased(pin!(case));
}

fn run_erased(case: Pin<&mut dyn Future<Output = ()>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()
        .expect("a runtime for the case");
    runtime.block_on(async {
        tokio::time::timeout(CASE_TIME_MAX, case)
            .await
            .expect("the case takes too long: some verb does not come back");
    });
}

/// Makes one test per case of the suite, in a module: `store_conformance!(memory, MemoryFixture);`.
/// Without a name the module is called `conformance`.
#[macro_export]
macro_rules! store_conformance {
    ($fixture:ty) => {
        $crate::store_conformance!(conformance, $fixture);
    };
    ($module:ident, $fixture:ty) => {
        mod $module {
            $crate::store_conformance! { @tests $fixture;
                claim {
                    first_claim_executes,
                    second_claim_is_in_flight,
                    waiting_claims_write_nothing,
                    granted_lease_is_on_record,
                    different_keys_are_independent,
                    scopes_and_namespaces_are_kept_apart,
                    attempts_are_counted,
                    each_claim_brings_its_own_policy,
                    looking_changes_nothing,
                }
                settle {
                    settled_outcome_is_replayed,
                    failure_is_replayed_as_a_failure,
                    result_id_is_kept,
                    repeat_of_a_settle_is_recorded,
                    second_outcome_is_refused_with_the_first,
                    late_holder_that_was_not_replaced_may_settle,
                    settling_changes_the_state_only,
                    settled_record_is_final,
                }
                release {
                    released_work_executes_again,
                    held_work_is_unknown_to_others,
                    held_work_stays_held_past_its_lease,
                    held_work_is_settled_by_its_holder,
                    repeat_of_a_release_is_done,
                    one_release_excludes_the_other,
                    released_lease_is_spent,
                    release_after_settle_is_refused,
                    late_holder_that_was_not_replaced_may_release,
                }
                renew {
                    renewal_extends_the_lease,
                    renewal_keeps_others_out,
                    renewal_never_shortens_the_lease,
                    record_outlives_its_renewed_lease,
                    renewal_never_shortens_retention,
                    late_holder_that_was_not_replaced_may_renew,
                    renewal_after_takeover_is_refused,
                    renewal_after_settle_is_refused,
                    renewal_after_release_is_refused,
                }
                fence {
                    stale_settle_is_refused,
                    stale_renewal_is_refused,
                    stale_release_is_refused,
                    released_holder_is_stale_after_the_next_claim,
                    stale_holder_gets_its_successors_outcome,
                    holder_from_an_earlier_life_is_refused,
                    holder_of_another_request_finds_its_record_gone,
                    holder_of_an_expired_record_finds_it_gone,
                    fences_rise_with_every_lease,
                }
                expiry {
                    settled_record_past_its_ttl_executes_again,
                    record_is_replayed_until_it_expires,
                    ttl_counts_from_the_claim,
                    expired_record_is_not_seen,
                    unsettled_records_expire_too,
                    expired_key_is_free_for_another_request,
                    renewed_work_is_in_flight_past_its_ttl,
                    late_lease_starts_the_retention_again,
                    repeated_claim_starts_the_retention_again,
                    takeover_never_shortens_the_records_life,
                    refused_claims_leave_the_retention_alone,
                }
                abandoned {
                    reexecute_grants_the_next_fence,
                    fail_settles_as_abandoned,
                    late_settle_after_fail_is_refused,
                    hold_answers_unknown,
                    late_settle_resolves_hold,
                    policy_of_the_asker_decides,
                    lease_is_live_until_it_ends,
                }
                mismatch {
                    other_request_is_refused_while_leased,
                    other_request_is_refused_when_abandoned,
                    other_request_is_refused_when_released,
                    other_request_is_refused_while_held,
                    other_request_is_refused_when_settled,
                    other_request_is_refused_when_failed,
                    repeated_mismatch_stays_a_mismatch,
                }
                owner {
                    repeated_claim_recognises_itself,
                    repeated_claim_never_shortens_the_lease,
                    another_owner_is_not_recognised,
                    repeated_claim_goes_on_after_its_lease_ran_out,
                    repeated_claim_after_takeover_is_in_flight,
                    repeated_claim_after_settle_is_replayed,
                    repeated_claim_after_release_is_granted_nothing,
                    released_owner_with_another_request_is_a_mismatch,
                    leases_of_a_repeated_claim_are_one,
                }
                races {
                    crowd_on_a_fresh_key_gets_one_lease,
                    crowd_on_an_abandoned_key_gets_one_lease,
                    crowd_on_a_released_key_gets_one_lease,
                    crowd_on_an_expired_key_gets_one_lease,
                    crowd_under_fail_agrees,
                    crowd_of_repeats_shares_one_fence,
                    settle_races_with_takeover,
                    renewal_races_with_takeover,
                    outcomes_race_and_one_stands,
                    dropped_claims_leave_the_store_usable,
                    dropped_settles_leave_the_store_usable,
                }
                sweep {
                    empty_store_has_nothing_to_sweep,
                    sweep_deletes_expired_records_only,
                    sweep_respects_its_limit,
                    sweep_spares_live_and_renewed_leases,
                    sweep_spares_abandoned_records,
                    swept_key_starts_a_new_life,
                    sweep_while_claiming_loses_nothing,
                }
                replies {
                    empty_reply_is_kept,
                    replies_of_every_size_are_kept,
                    large_replies_are_kept,
                    every_byte_value_is_kept,
                    bytes_that_are_not_text_are_kept,
                    text_like_headers_is_kept,
                    result_ids_of_every_length_are_kept,
                }
                many {
                    every_one_of_many_keys_is_intact,
                    one_key_with_many_leases,
                    ids_that_differ_in_one_bit_are_kept_apart,
                }
                versions {
                    every_state_survives_reopening,
                    claims_are_answered_alike_after_reopening,
                    leases_survive_reopening,
                    expired_records_stay_expired_after_reopening,
                }
                health {
                    store_names_its_kind,
                    clock_moves_with_the_store,
                }
                differential {
                    random_histories_agree_with_the_reference,
                }
            }
        }
    };
    (@tests $fixture:ty; $($subject:ident { $($case:ident,)+ })+) => {
        use super::*;
        $(
            mod $subject {
                use super::*;
                $(
                    #[test]
                    fn $case() {
                        $crate::conformance::run($crate::conformance::$subject::$case::<$fixture>());
                    }
                )+
            }
        )+
    };
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    /// A case that the macro does not name would never run.
    #[test]
    fn every_case_is_listed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/conformance");
        let list = include_str!("mod.rs");
        let mut cases = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let source = fs::read_to_string(&path).unwrap();
            for line in source.lines() {
                let Some(rest) = line.strip_prefix("pub async fn ") else {
                    continue;
                };
                let case = rest.split('<').next().unwrap();
                assert!(list.contains(&format!(" {case},\n")), "{case} in {path:?}");
                cases += 1;
            }
        }
        assert!(cases >= 100, "{cases} cases");
    }
}
