//! What wins over what.

use std::time::Duration;

use semel_core::{OnStoreDown, OnUnknown};
use semel_http::{Preset, Profile};

use super::{complete, good, load_with, text_of};
use crate::config::{Config, Flags, StoreChoice};

fn hours(config: &Config, route: usize) -> u64 {
    config.routes.all()[route].policy().core.ttl().as_secs() / 3600
}

/// The log at the start names routes in shadow mode, too.
#[test]
fn the_description_names_anonymous_routes_that_only_watch() {
    let shown = |mode: &str| {
        let route = format!("[[route]]\nmatch = \"POST /a\"\nmode = \"{mode}\"");
        let off = format!("[policy]\nmode = \"off\"\n{route}");
        super::good(&off).describe()
    };
    for mode in ["protect", "shadow"] {
        let shown = shown(mode);
        let (others, route) = shown.split_once("route POST /a").unwrap();
        assert!(route.contains("note: clients without a credential share one scope"), "{shown}");
        assert!(!others.contains("note:"), "{shown}");
    }
    assert!(!shown("off").contains("note:"));
    // Nothing is released, and no lease held, where nothing is protected.
    assert!(!shown("shadow").contains("unknown outcome"));
}

#[test]
fn a_setting_wins_over_a_preset_and_that_over_a_profile() {
    let config = good("[policy]\nttl = \"1h\"\npreset = \"payments\"\nprofile = \"stripe\"");
    let policy = config.routes.all()[0].policy();
    assert_eq!(hours(&config, 0), 1);
    assert_eq!(policy.core.on_unknown(), OnUnknown::Hold);
    assert_eq!(policy.mismatch_status, 400);
    assert_eq!((policy.profile, policy.preset), (Profile::Stripe, Some(Preset::Payments)));
}

#[test]
fn whatever_a_route_says_wins_over_the_policy() {
    let config = good(
        r#"
        [policy]
        ttl = "1h"
        mismatch_status = 410
        on_store_down = "open"
        [[route]]
        match = "POST /a"
        preset = "payments"
        [[route]]
        match = "POST /b"
        profile = "ietf"
        [[route]]
        match = "POST /c"
        ttl = "2h"
        preset = "payments"
        "#,
    );
    let policy = |route: usize| config.routes.all()[route].policy();
    assert_eq!([0, 1, 2, 3].map(|route| hours(&config, route)), [1, 48, 1, 2]);
    assert_eq!(
        [0, 1, 2, 3].map(|route| policy(route).mismatch_status.as_u16()),
        [410, 410, 422, 410]
    );
    assert_eq!(policy(1).core.on_store_down(), OnStoreDown::Closed);
    assert_eq!(policy(2).core.on_store_down(), OnStoreDown::Open);
}

#[test]
fn variables_win_over_the_file_and_flags_over_both() {
    let file = complete("listen = \"127.0.0.1:1\"\nstore = \"memory:\"\n[policy]\nttl = \"1h\"");
    let env = [
        ("SEMEL_LISTEN", "127.0.0.1:2"),
        ("SEMEL_ADMIN", "127.0.0.1:3"),
        ("SEMEL_POLICY_TTL", "2h"),
        ("SEMEL_POLICY_KEY_FROM", "header:a, json:/b"),
        ("SEMEL_POLICY_FINGERPRINT_HEADERS", ""),
        ("SEMEL_POLICY_REPLAY_COOKIES", "true"),
        ("SEMEL_POLICY_MAX_REPLY_BODY", "1000"),
        ("SEMEL_LIMITS_MAX_WAITERS", "5"),
        ("PATH", "/bin"),
    ];
    let flags = Flags {
        admin: Some("off".to_owned()),
        upstream: Some("http://other:1".to_owned()),
        store: Some("embedded:/data".to_owned()),
        ..Flags::default()
    };
    let config = load_with(&file, &env, &flags).unwrap();
    assert_eq!(config.listen.port(), 2);
    assert_eq!(config.admin, None);
    assert_eq!(config.upstream.host, "other");
    assert_eq!(config.store, StoreChoice::Embedded("/data".into()));
    assert_eq!(config.limits.max_waiters, 5);
    let policy = config.routes.all()[0].policy();
    assert_eq!(policy.core.ttl(), Duration::from_hours(2));
    assert_eq!(policy.key_from.len(), 2);
    assert!(policy.fingerprint_headers.is_empty() && policy.replay_cookies);
    assert_eq!(policy.max_reply_body, 1000);
}

#[test]
fn a_route_wins_over_a_variable() {
    let file = complete("[[route]]\nmatch = \"POST /a\"\nttl = \"3h\"");
    let config = load_with(&file, &[("SEMEL_POLICY_TTL", "2h")], &Flags::default()).unwrap();
    assert_eq!([0, 1].map(|route| hours(&config, route)), [2, 3]);
}

#[test]
fn no_file_is_needed() {
    let flags = Flags { upstream: Some("http://h:1".to_owned()), ..Flags::default() };
    let config = Config::load(None, [], &flags).unwrap();
    assert_eq!(config.upstream.port, 1);
    assert!(config.describe().contains("--upstream"));
    let faults = Config::load(None, [], &Flags::default()).unwrap_err();
    assert_eq!(text_of(&faults), "configuration: `upstream` is missing");
}

#[test]
fn faults_of_variables_and_flags_name_them() {
    let env = [
        ("SEMEL_POLICY_LEASE", "25h"),
        ("SEMEL_LISTN", "x"),
        ("SEMEL_POLICY_KEY_FROM", "cookie:a"),
        ("SEMEL_WORKERS", "many"),
        ("SEMEL_RUST", ""),
        ("SEMEL_SERVICE_HOST", "10.0.0.1"),
    ];
    let flags = Flags { store: Some("memory".to_owned()), ..Flags::default() };
    let faults = load_with(&complete("workers = 1000"), &env, &flags).unwrap_err();
    assert_eq!(
        faults.to_string(),
        r#"semel.toml:2:11: `workers` is 1000, and must be from 0 to 256
    2 | workers = 1000
      |           ^^^^
    cure: choose a value within these limits

SEMEL_LISTN: it names no setting
    cure: did you mean `SEMEL_LISTEN`?

SEMEL_POLICY_KEY_FROM: `key_from` has "cookie:a", which is not a place of a key
    cure: write "header:NAME" or "json:/pointer"

SEMEL_POLICY_LEASE: `lease` is "25h", longer than `ttl` ("24h")
    cure: shorten the lease, or keep records longer with ttl

SEMEL_RUST: it names no setting
    cure: unset it; docs/reference/configuration.md has all variables

SEMEL_SERVICE_HOST: it names no setting
    cure: unset it; if Kubernetes made it for a Service of this name, give the pod enableServiceLinks: false

SEMEL_WORKERS: `workers` is "many", which is not a whole number
    cure: write digits without quotes, such as 0

--store: `store` is "memory", which is not a store
    cure: write "embedded:DIR", "postgres://USER@HOST/DATABASE", "redis://HOST", or "memory:" for tests"#
    );
}

#[test]
fn what_takes_a_restart_is_named() {
    let old = good("");
    let new = good("listen = \"127.0.0.1:9\"\nnamespace = \"b\"\nlimits.max_waiters = 3");
    assert_eq!(old.needs_restart(&new), ["listen", "max_waiters"]);
    // The same, written otherwise.
    let same = good("listen = \"127.0.0.1:8080\"\nlimits.cache_bytes = \"65536KiB\"");
    assert_eq!(old.needs_restart(&same), [""; 0]);
}
