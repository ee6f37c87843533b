//! The policy of a route, out of the settings in effect for it.

use std::num::NonZero;
use std::time::Duration;

use http::StatusCode;
use semel_core::{InFlight, KeyFormat, OnAbandoned, OnStoreDown, OnUnknown, PolicyFault};
use semel_http::{RoutePolicy, RoutePolicyBuilder, RoutePolicyFault};

use super::fault::{Found, Place, Wrong};
use super::sheet::Sheet;
use super::value::Value;

/// The policy, or nothing and its faults. Those that come from no setting are put at `place`.
pub(super) fn build(sheet: &Sheet, place: &Place, found: &mut Found) -> Option<RoutePolicy> {
    let builder = sheet.values().fold(start(sheet), |builder, (name, value)| {
        apply(builder.clone(), name, value).unwrap_or(builder)
    });
    let mut add = |names: &[&str], wrong: Wrong| {
        if sheet.is_sure_of(names) {
            let place = sheet.blame(names).unwrap_or_else(|| place.clone());
            found.add(place, wrong.what, wrong.cure);
        }
    };
    if is_waiting_too_long(sheet) {
        let cure = "wait less, or keep records longer with ttl";
        let wrong = exceeding(sheet, "wait_timeout", "ttl", "longer than", cure);
        add(&["wait_timeout", "ttl", "in_flight"], wrong);
    }
    match builder.build() {
        Ok(policy) => Some(policy),
        Err(error) => {
            for fault in &error.faults {
                let (names, wrong) = explained(fault, sheet);
                add(names, wrong);
            }
            None
        }
    }
}

/// Profile and preset come first: settings win over them.
fn start(sheet: &Sheet) -> RoutePolicyBuilder {
    let mut builder = RoutePolicy::builder();
    if let Ok(profile) = sheet.word("profile").parse() {
        builder = builder.profile(profile);
    }
    match sheet.word("preset").parse().ok() {
        Some(preset) => builder.preset(preset),
        None => builder,
    }
}

/// Makes one setting, unless it is none of a policy. A test sees to it that all are made.
pub(super) fn apply(
    builder: RoutePolicyBuilder,
    name: &str,
    value: &Value,
) -> Option<RoutePolicyBuilder> {
    Some(match (name, value) {
        ("profile" | "preset", Value::Word(_)) => builder,
        (name, Value::Word(word)) => return apply_word(builder, name, word),
        ("key_from", Value::KeySources(sources)) => builder.key_from(sources.clone()),
        ("scope", Value::ScopeSources(sources)) => builder.scope(sources.clone()),
        ("fingerprint_headers", Value::HeaderNames(names)) => {
            builder.fingerprint_headers(names.clone())
        }
        ("fingerprint_ignore", Value::Pointers(pointers)) => {
            builder.fingerprint_ignore(pointers.clone())
        }
        ("release_statuses", Value::Statuses(statuses)) => {
            builder.release_statuses(statuses.clone())
        }
        ("unknown_statuses", Value::Statuses(statuses)) => {
            builder.unknown_statuses(statuses.clone())
        }
        ("replay_headers", Value::HeaderLines(lines)) => builder.replay_headers(lines.clone()),
        ("result_from", Value::Source(source)) => builder.result_from(Some(source.clone())),
        ("new_keys_per_scope", Value::Rate(rate)) => builder.new_keys_per_scope(*rate),
        ("replay_cookies", Value::Switch(on)) => builder.replay_cookies(*on),
        (name, Value::Number(number)) => return apply_number(builder, name, *number),
        (name, Value::Time(time)) => return apply_time(builder, name, *time),
        _ => return None,
    })
}

fn apply_word(builder: RoutePolicyBuilder, name: &str, word: &str) -> Option<RoutePolicyBuilder> {
    Some(match (name, word) {
        ("mode", word) => builder.mode(word.parse().ok()?),
        ("key", word) => builder.key(word.parse().ok()?),
        ("on_missing_scope", word) => builder.on_missing_scope(word.parse().ok()?),
        ("jwt_unverified", word) => builder.jwt_unverified(word.parse().ok()?),
        ("path_case", word) => builder.path_case(word.parse().ok()?),
        ("path_slash", word) => builder.path_slash(word.parse().ok()?),
        ("path_encoded_slash", word) => builder.path_encoded_slash(word.parse().ok()?),
        ("key_format", "any") => builder.key_format(KeyFormat::Any),
        ("key_format", "uuid") => builder.key_format(KeyFormat::Uuid),
        ("in_flight", "conflict") => builder.in_flight(InFlight::Conflict),
        ("in_flight", "accepted") => builder.in_flight(InFlight::Accepted),
        // `wait_timeout` comes after `in_flight` in the alphabet, and always has a value.
        ("in_flight", "wait") => builder.in_flight(InFlight::Wait(Duration::from_secs(10))),
        ("on_abandoned", "reexecute") => builder.on_abandoned(OnAbandoned::Reexecute),
        ("on_abandoned", "fail") => builder.on_abandoned(OnAbandoned::Fail),
        ("on_abandoned", "hold") => builder.on_abandoned(OnAbandoned::Hold),
        ("on_unknown", "release") => builder.on_unknown(OnUnknown::Release),
        ("on_unknown", "hold") => builder.on_unknown(OnUnknown::Hold),
        ("on_store_down", "closed") => builder.on_store_down(OnStoreDown::Closed),
        ("on_store_down", "open") => builder.on_store_down(OnStoreDown::Open),
        _ => return None,
    })
}

fn apply_number(
    builder: RoutePolicyBuilder,
    name: &str,
    number: u64,
) -> Option<RoutePolicyBuilder> {
    Some(match name {
        "key_max_length" => builder.key_max_length(usize::try_from(number).unwrap_or(usize::MAX)),
        "mismatch_status" => {
            let status = u16::try_from(number).ok()?;
            builder.mismatch_status(StatusCode::from_u16(status).ok()?)
        }
        "max_executions_per_scope" => {
            builder.max_executions_per_scope(u32::try_from(number).unwrap_or(u32::MAX))
        }
        // Zero is off.
        "max_records_per_scope" => builder.max_records_per_scope(NonZero::new(number)),
        "max_record_bytes_per_scope" => builder.max_record_bytes_per_scope(NonZero::new(number)),
        "max_request_body" => builder.max_request_body(number),
        "max_reply_body" => builder.max_reply_body(number),
        _ => return None,
    })
}

fn apply_time(
    builder: RoutePolicyBuilder,
    name: &str,
    time: Duration,
) -> Option<RoutePolicyBuilder> {
    Some(match name {
        "lease" => builder.lease(time),
        "ttl" => builder.ttl(time),
        "wait_timeout" => builder.wait_timeout(time),
        "request_body_timeout" => builder.request_body_timeout(time),
        "upstream_timeout" => builder.upstream_timeout(time),
        _ => return None,
    })
}

fn is_waiting_too_long(sheet: &Sheet) -> bool {
    sheet.word("in_flight") == "wait" && sheet.time("wait_timeout") > sheet.time("ttl")
}

/// Which settings a fault is about, and what to say.
fn explained(fault: &RoutePolicyFault, sheet: &Sheet) -> (&'static [&'static str], Wrong) {
    match fault {
        RoutePolicyFault::Core(PolicyFault::LeaseNotShorterThanTtl { lease, ttl }) => {
            let relation = relation(*lease, *ttl);
            let cure = "shorten the lease, or keep records longer with ttl";
            (&["lease", "ttl"], exceeding(sheet, "lease", "ttl", relation, cure))
        }
        RoutePolicyFault::UpstreamTimeoutNotShorterThanTtl { timeout, ttl } => {
            let relation = relation(*timeout, *ttl);
            let cure = "give the upstream less time, or keep records longer with ttl";
            let wrong = exceeding(sheet, "upstream_timeout", "ttl", relation, cure);
            (&["upstream_timeout", "ttl"], wrong)
        }
        RoutePolicyFault::StatusReleasedAndUnknown(status) => {
            let from = |name| sheet.preset_of(name).map(|word| format!(" (preset {word})"));
            let from = from("unknown_statuses").unwrap_or_default();
            let what = format!(
                "`release_statuses` has \"{status}\", which `unknown_statuses`{from} has too"
            );
            let cure = "take it out of one of them: released, a retry executes; unknown, \
                        `on_unknown` decides";
            (&["release_statuses", "unknown_statuses"], Wrong::new(what, cure))
        }
        RoutePolicyFault::UnverifiedPayments => {
            let what = "`jwt_unverified` is \"warn\", and `preset` is \"payments\"".to_owned();
            let cure = "remove it, or write jwt_unverified = \"behind-a-verifier\" if something in \
                        front verifies tokens";
            (&["jwt_unverified"], Wrong::new(what, cure))
        }
        // All others are ruled out by the limits of single settings. Should one be added, it is
        // told as the policy tells it.
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

fn exceeding(sheet: &Sheet, one: &str, other: &str, relation: &str, cure: &str) -> Wrong {
    let (shown, limit) = (sheet.shown(one), sheet.shown(other));
    let preset = sheet.preset_of(other).map(|word| format!(", preset {word}")).unwrap_or_default();
    Wrong::new(format!("`{one}` is {shown}, {relation} `{other}` ({limit}{preset})"), cure)
}
