use std::time::Duration;

use semel_core::{InFlight, OnAbandoned, OnStoreDown, OnUnknown, PolicyFault};

use super::StatusMeaning::{Kept, Released, Unknown};
use super::*;

fn classify(policy: &RoutePolicy, status: u16) -> StatusMeaning {
    policy.classify(StatusCode::from_u16(status).unwrap())
}

fn patterns(texts: &[&str]) -> Vec<StatusPattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn need(policy: &RoutePolicy, method: &str) -> Need {
    policy.need(&method.parse().unwrap())
}

#[test]
fn the_default_equals_an_empty_builder() {
    assert_eq!(RoutePolicy::default(), RoutePolicy::builder().build().unwrap());
}

#[test]
fn methods_need_keys_as_http_has_it() {
    let policy = RoutePolicy::default();
    for method in ["POST", "PATCH"] {
        assert_eq!(need(&policy, method), Need::Required, "{method}");
    }
    for method in ["PUT", "DELETE", "PURGE"] {
        assert_eq!(need(&policy, method), Need::Optional, "{method}");
    }
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "CONNECT"] {
        assert_eq!(need(&policy, method), Need::Pass, "{method}");
    }
}

#[test]
fn a_route_can_say_otherwise() {
    let required = RoutePolicy::builder().key(KeyRule::Required).build().unwrap();
    assert_eq!(need(&required, "GET"), Need::Required);
    assert_eq!(need(&required, "OPTIONS"), Need::Pass);
    let optional = RoutePolicy::builder().key(KeyRule::Optional).build().unwrap();
    assert_eq!(need(&optional, "POST"), Need::Optional);
    assert_eq!(need(&optional, "GET"), Need::Optional);
    let off = RoutePolicy::builder().mode(Mode::Off).key(KeyRule::Required).build().unwrap();
    assert_eq!(need(&off, "POST"), Need::Pass);
}

/// Trap 22: profiles follow the documented behaviour.
#[test]
fn profiles_are_the_documented_ones() {
    let build = |profile| RoutePolicy::builder().profile(profile).build().unwrap();
    let (classic, ietf, stripe) =
        (build(Profile::Classic), build(Profile::Ietf), build(Profile::Stripe));
    assert_eq!(classic.mismatch_status, 409);
    assert_eq!(ietf.mismatch_status, 422);
    assert_eq!(stripe.mismatch_status, 400);
    assert_eq!((classic.key_limits.max_len, stripe.key_limits.max_len), (128, 255));
    assert_eq!(stripe.replay_headers[0].0, "idempotent-replayed");
    assert_eq!(classic.replay_headers[0].0, "x-idempotency-replayed");
    let all = |status| [&classic, &ietf, &stripe].map(|policy| classify(policy, status));
    for status in [408, 425, 429] {
        assert_eq!(all(status), [Released, Released, Released], "{status}");
    }
    for status in [500, 502, 503, 599] {
        assert_eq!(all(status), [Released, Released, Kept], "{status}");
    }
    for status in [200, 201, 302, 400, 402, 404, 409, 422] {
        assert_eq!(all(status), [Kept, Kept, Kept], "{status}");
    }
}

#[test]
fn presets_are_the_documented_ones() {
    let build = |preset| RoutePolicy::builder().preset(preset).build().unwrap();
    let payments = build(Preset::Payments);
    assert_eq!(payments.core.on_abandoned(), OnAbandoned::Hold);
    assert_eq!(payments.core.on_unknown(), OnUnknown::Hold);
    assert_eq!(payments.core.on_store_down(), OnStoreDown::Closed);
    assert_eq!(payments.on_missing_scope, OnMissingScope::Reject);
    assert_eq!(payments.core.ttl(), Duration::from_hours(48));
    for status in [500, 502, 504] {
        assert_eq!(classify(&payments, status), Unknown, "{status}");
    }
    for status in [408, 425, 429, 501, 503] {
        assert_eq!(classify(&payments, status), Released, "{status}");
    }
    assert!(!payments.releases_unknown());
    assert_eq!(build(Preset::Api).core.ttl(), Duration::from_hours(24));
    let notifications = build(Preset::Notifications);
    assert_eq!(notifications.core.on_store_down(), OnStoreDown::Open);
    assert_eq!(notifications.core.on_abandoned(), OnAbandoned::Reexecute);
    assert_eq!(notifications.core.ttl(), Duration::from_hours(4));
    assert_eq!(build(Preset::Batch).core.ttl(), Duration::from_hours(168));
}

/// A client could write another's name into its token.
#[test]
fn payments_take_unverified_claims_only_behind_a_verifier() {
    let build = |preset, choice, mode| {
        let scope = vec!["jwt:sub".parse().unwrap()];
        let builder = RoutePolicy::builder().preset(preset).scope(scope).mode(mode);
        builder.jwt_unverified(choice).build()
    };
    let error = build(Preset::Payments, JwtUnverified::Warn, Mode::Shadow).unwrap_err();
    assert_eq!(error.faults, [RoutePolicyFault::UnverifiedPayments]);
    for choice in [JwtUnverified::Refuse, JwtUnverified::BehindAVerifier] {
        build(Preset::Payments, choice, Mode::Protect).unwrap();
    }
    build(Preset::Payments, JwtUnverified::Warn, Mode::Off).unwrap();
    build(Preset::Api, JwtUnverified::Warn, Mode::Protect).unwrap();
}

#[test]
fn a_profile_that_keeps_5xx_leaves_the_unknown_ones_unknown() {
    let policy = RoutePolicy::builder().profile(Profile::Stripe).preset(Preset::Payments);
    let policy = policy.build().unwrap();
    assert_eq!((classify(&policy, 502), classify(&policy, 503)), (Unknown, Kept));
}

#[test]
fn a_single_status_wins_over_a_class() {
    let build = |release: &[&str], unknown: &[&str]| {
        let builder = RoutePolicy::builder().release_statuses(patterns(release));
        builder.unknown_statuses(patterns(unknown)).build()
    };
    let policy = build(&["5xx"], &["502"]).unwrap();
    assert_eq!((classify(&policy, 502), classify(&policy, 503)), (Unknown, Released));
    let policy = build(&["503"], &["5xx"]).unwrap();
    assert_eq!((classify(&policy, 502), classify(&policy, 503)), (Unknown, Released));
    assert_eq!(classify(&policy, 404), Kept);
    for both in ["502", "5xx"] {
        let error = build(&["429", both], &["404", both]).unwrap_err();
        let fault = RoutePolicyFault::StatusReleasedAndUnknown(both.parse().unwrap());
        assert_eq!(error.faults, [fault]);
    }
}

#[test]
fn only_a_protected_route_releases_unknown_outcomes() {
    let build = |mode, on_unknown| {
        RoutePolicy::builder().mode(mode).on_unknown(on_unknown).build().unwrap()
    };
    assert!(build(Mode::Protect, OnUnknown::Release).releases_unknown());
    assert!(!build(Mode::Protect, OnUnknown::Hold).releases_unknown());
    for mode in [Mode::Shadow, Mode::Off] {
        assert!(!build(mode, OnUnknown::Release).releases_unknown());
    }
}

#[test]
fn single_settings_win_over_presets_and_profiles() {
    let policy = RoutePolicy::builder()
        .profile(Profile::Stripe)
        .preset(Preset::Payments)
        .on_unknown(OnUnknown::Release)
        .mismatch_status(StatusCode::CONFLICT)
        .in_flight(InFlight::Wait(Duration::from_secs(1)))
        .wait_timeout(Duration::from_secs(2))
        .build()
        .unwrap();
    assert_eq!(policy.core.on_unknown(), OnUnknown::Release);
    assert_eq!(policy.mismatch_status, 409);
    assert_eq!(policy.core.in_flight(), InFlight::Wait(Duration::from_secs(2)));
}

#[test]
fn all_faults_are_reported_at_once() {
    let error = RoutePolicy::builder()
        .key_from(vec![])
        .scope(vec![])
        .key_max_length(0)
        .upstream_timeout(Duration::ZERO)
        .request_body_timeout(Duration::ZERO)
        .max_request_body(u64::MAX)
        .mismatch_status(StatusCode::OK)
        .replay_headers(vec![(http::header::SET_COOKIE, HeaderValue::from_static("a"))])
        .lease(Duration::from_hours(24))
        .build()
        .unwrap_err();
    assert_eq!(error.faults.len(), 9, "{error}");
    assert!(matches!(
        error.faults[8],
        RoutePolicyFault::Core(PolicyFault::LeaseNotShorterThanTtl { .. })
    ));
}

#[test]
fn global_is_a_scope_of_its_own() {
    let scope = vec![ScopeSource::Global, ScopeSource::ClientIp];
    let error = RoutePolicy::builder().scope(scope).build().unwrap_err();
    assert_eq!(error.faults, [RoutePolicyFault::GlobalBesideOthers]);
}
