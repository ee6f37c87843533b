//! The policy of a route, out of the settings in effect for it.

use std::time::Duration;

use semel_core::{InFlight, PolicyFault};
use semel_http::{RoutePolicy, RoutePolicyBuilder, RoutePolicyFault};

use super::fault::{Found, Place, Wrong};
use super::settings::policy::{
    IN_FLIGHT, JWT_UNVERIFIED, LEASE, PRESET, PROFILE, RELEASE_STATUSES, TTL, UNKNOWN_STATUSES,
    UPSTREAM_TIMEOUT, WAIT_TIMEOUT,
};
use super::settings::{self, Row};
use super::values::Values;

/// The policy, or nothing and its faults. Those that come from no setting are put at `place`.
pub(super) fn build(values: &Values, place: &Place, found: &mut Found) -> Option<RoutePolicy> {
    let steps = settings::all().filter_map(|row| row.apply);
    let builder = steps.fold(start(values), |builder, apply| apply(builder, values));
    let mut add = |rows: &[&Row], wrong: Wrong| {
        if values.is_sure_of(rows) {
            let place = values.blame(rows).unwrap_or_else(|| place.clone());
            found.add(place, wrong.what, wrong.cure);
        }
    };
    if is_waiting_too_long(values) {
        let cure = "wait less, or keep records longer with ttl";
        let wrong = exceeding(values, &WAIT_TIMEOUT, &TTL, "longer than", cure);
        add(&[&WAIT_TIMEOUT, &TTL, &IN_FLIGHT], wrong);
    }
    match builder.build() {
        Ok(policy) => Some(policy),
        Err(error) => {
            for fault in &error.faults {
                let (rows, wrong) = explained(fault, values);
                add(rows, wrong);
            }
            None
        }
    }
}

/// Profile and preset are known to the policy; each of their choices is among the values in effect.
fn start(values: &Values) -> RoutePolicyBuilder {
    let builder = RoutePolicy::builder().profile(values.get(&PROFILE));
    match values.get(&PRESET) {
        Some(preset) => builder.preset(preset),
        None => builder,
    }
}

fn is_waiting_too_long(values: &Values) -> bool {
    matches!(values.get(&IN_FLIGHT), InFlight::Wait(_))
        && values.get(&WAIT_TIMEOUT) > values.get(&TTL)
}

/// Which settings a fault is about, and what to say.
fn explained(fault: &RoutePolicyFault, values: &Values) -> (&'static [&'static Row], Wrong) {
    match fault {
        RoutePolicyFault::Core(PolicyFault::LeaseNotShorterThanTtl { lease, ttl }) => {
            let relation = relation(*lease, *ttl);
            let cure = "shorten the lease, or keep records longer with ttl";
            (&[&LEASE.row, &TTL.row], exceeding(values, &LEASE, &TTL, relation, cure))
        }
        RoutePolicyFault::UpstreamTimeoutNotShorterThanTtl { timeout, ttl } => {
            let relation = relation(*timeout, *ttl);
            let cure = "give the upstream less time, or keep records longer with ttl";
            let wrong = exceeding(values, &UPSTREAM_TIMEOUT, &TTL, relation, cure);
            (&[&UPSTREAM_TIMEOUT.row, &TTL.row], wrong)
        }
        RoutePolicyFault::StatusReleasedAndUnknown(status) => {
            let preset = values.preset_of(&UNKNOWN_STATUSES);
            let from = preset.map(|word| format!(" (preset {word})")).unwrap_or_default();
            let what = format!(
                "`release_statuses` has \"{status}\", which `unknown_statuses`{from} has too"
            );
            let cure = "take it out of one of them: released, a retry executes; unknown, \
                        `on_unknown` decides";
            (&[&RELEASE_STATUSES.row, &UNKNOWN_STATUSES.row], Wrong::new(what, cure))
        }
        RoutePolicyFault::UnverifiedPayments => {
            let what = "`jwt_unverified` is \"warn\", and `preset` is \"payments\"".to_owned();
            let cure = "remove it, or write jwt_unverified = \"behind-a-verifier\" if something in \
                        front verifies tokens";
            (&[&JWT_UNVERIFIED.row], Wrong::new(what, cure))
        }
        // All others are ruled out by the limits of single settings. Should one be added, it is
        // reported as the policy words it.
        other => {
            let text = other.to_string();
            let (what, cure) = text.split_once("; ").unwrap_or((&text, "choose another value"));
            (&[], Wrong::new(what, cure))
        }
    }
}

fn relation(one: Duration, other: Duration) -> &'static str {
    if one == other { "as long as" } else { "longer than" }
}

fn exceeding(values: &Values, one: &Row, other: &Row, relation: &str, cure: &str) -> Wrong {
    let (shown, limit) = (values.shown(one), values.shown(other));
    let preset = values.preset_of(other).map(|word| format!(", preset {word}")).unwrap_or_default();
    Wrong::new(
        format!("`{}` is {shown}, {relation} `{}` ({limit}{preset})", one.name, other.name),
        cure,
    )
}
