//! The suite is worth what it finds: each of these stores has one mistake, and the case that is
//! there for it must fail.

mod flawed;

use std::panic::{AssertUnwindSafe, catch_unwind};

use flawed::{Flaw, Flawed};
use semel_store::conformance::differential::random_histories_agree_with_the_reference as histories;
use semel_store::conformance::{self, run};

/// Without a mistake the whole suite passes, so that every failure below is the mistake's.
type Control = Flawed<{ Flaw::None as u8 }>;

semel_store::store_conformance!(control, Control);

/// Asserts that each case fails for the flaw, and that random histories find the flaw by themselves
/// (or that they cannot, because it is none of the decisions).
macro_rules! bites {
    ($($name:ident: $flaw:ident, [$($subject:ident :: $case:ident),+], histories: $found:literal;)+) => {$(
        #[test]
        fn $name() {
            type Wrong = Flawed<{ Flaw::$flaw as u8 }>;
            $(
                assert!(
                    fails(conformance::$subject::$case::<Wrong>()),
                    "{} does not notice {:?}", stringify!($case), Flaw::$flaw
                );
            )+
            assert_eq!(fails(histories::<Wrong>()), $found, "histories");
        }
    )+};
}

fn fails(case: impl Future<Output = ()>) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(case))).is_err()
}

bites! {
    settle_without_a_fence: SettleUnfenced,
        [fence::stale_settle_is_refused, fence::stale_holder_gets_its_successors_outcome],
        histories: true;
    release_without_a_fence: ReleaseUnfenced,
        [fence::stale_release_is_refused], histories: true;
    renew_without_a_fence: RenewUnfenced,
        [fence::stale_renewal_is_refused, renew::renewal_after_takeover_is_refused],
        histories: true;
    fence_number_without_its_owner: OwnerUnchecked,
        [fence::holder_from_an_earlier_life_is_refused], histories: true;
    check_then_set: CheckThenSet,
        [races::crowd_on_a_fresh_key_gets_one_lease, races::crowd_on_an_abandoned_key_gets_one_lease,
         races::crowd_on_a_released_key_gets_one_lease],
        histories: false;
    retention_from_the_settlement: TtlFromSettle,
        [expiry::ttl_counts_from_the_claim], histories: true;
    retention_from_the_first_claim: TtlFromCreation,
        [expiry::late_lease_starts_the_retention_again,
         expiry::repeated_claim_starts_the_retention_again],
        histories: true;
    mismatch_seen_only_after_completion: MismatchIgnoredInFlight,
        [mismatch::other_request_is_refused_while_leased], histories: true;
    replies_kept_as_text: RepliesAsText,
        [replies::every_byte_value_is_kept, replies::bytes_that_are_not_text_are_kept,
         settle::result_id_is_kept],
        histories: false;
    repeated_claim_not_recognised: OwnerUnrecognised,
        [owner::repeated_claim_recognises_itself], histories: true;
    claim_granted_after_its_owner_released: ReleasedOwnerGranted,
        [owner::repeated_claim_after_release_is_granted_nothing], histories: true;
    expiry_left_to_the_sweeper: ExpiryIgnored,
        [expiry::settled_record_past_its_ttl_executes_again, expiry::expired_record_is_not_seen],
        histories: true;
    renewal_that_lets_the_record_expire: RenewalForgetsExpiry,
        [renew::record_outlives_its_renewed_lease, expiry::renewed_work_is_in_flight_past_its_ttl,
         sweep::sweep_spares_live_and_renewed_leases],
        histories: true;
    renewal_that_shortens_the_lease: RenewalShortens,
        [renew::renewal_never_shortens_the_lease], histories: true;
    last_settle_wins: LastSettleWins,
        [settle::second_outcome_is_refused_with_the_first, races::outcomes_race_and_one_stands],
        histories: true;
    sweeping_abandoned_records: SweepsAbandoned,
        [sweep::sweep_spares_abandoned_records], histories: true;
    failure_told_but_not_recorded: FailNotRecorded,
        [abandoned::fail_settles_as_abandoned, abandoned::late_settle_after_fail_is_refused],
        histories: true;
    release_that_cannot_be_repeated: ReleaseNotRepeatable,
        [release::repeat_of_a_release_is_done], histories: true;
    ids_cut_short: ShortIds,
        [many::ids_that_differ_in_one_bit_are_kept_apart], histories: false;
    records_lost_on_closing: Forgetful,
        [versions::every_state_survives_reopening, versions::leases_survive_reopening],
        histories: true;
}
