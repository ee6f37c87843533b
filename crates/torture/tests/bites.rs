//! Gateways that are set up wrong: the checker must say what is broken.
//!
//! Each setting here is one that the gateway has, and that turns one promise off.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};

use semel_torture::checker::Rule;
use semel_torture::run::{Plan, run};
use semel_torture::{Kind, StoreKind, build};

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn semel() -> PathBuf {
    static SEMEL: OnceLock<PathBuf> = OnceLock::new();
    SEMEL.get_or_init(|| build(None).expect("the gateway")).clone()
}

/// A run with this setting and only these faults breaks the rule.
fn is_caught(store: StoreKind, setting: (&str, &str), kinds: &[Kind], rule: Rule) {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut plan = Plan::new(store, 7, 5, semel());
    plan.clients = 32;
    plan.kinds = Some(kinds.to_vec());
    plan.environment.push((setting.0.to_owned(), setting.1.to_owned()));
    let done = run(&plan).expect("a run");
    if let Some(kept) = &done.kept {
        std::fs::remove_dir_all(kept).expect("removed");
    }
    let broken = done.report.broken();
    assert!(broken.contains(&rule.as_str()), "{setting:?} was not caught: {}", done.report);
}

#[test]
fn nothing_is_caught_where_nothing_is_wrong() {
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut plan = Plan::new(StoreKind::Embedded, 7, 4, semel());
    plan.clients = 32;
    plan.kinds = Some(Vec::new());
    let done = run(&plan).expect("a run");
    assert!(done.report.violations.is_empty(), "{}", done.report);
    assert!(done.report.faults.keys().all(|kind| kind == "stall"), "{}", done.report);
}

#[test]
fn replayed_cookies_are_caught() {
    let setting = ("SEMEL_POLICY_REPLAY_COOKIES", "true");
    is_caught(StoreKind::Embedded, setting, &[], Rule::Cookies);
}

#[test]
fn a_shared_scope_is_caught() {
    let setting = ("SEMEL_POLICY_SCOPE", "global");
    is_caught(StoreKind::Embedded, setting, &[], Rule::ScopeCanary);
}

#[test]
fn a_body_that_is_not_compared_is_caught() {
    let setting = ("SEMEL_POLICY_FINGERPRINT_IGNORE", "/amount,/variant");
    is_caught(StoreKind::Embedded, setting, &[], Rule::MismatchInert);
}

#[test]
fn records_that_die_with_their_gateway_are_caught() {
    let setting = ("SEMEL_STORE", "memory:");
    is_caught(StoreKind::Embedded, setting, &[Kind::GatewayKill], Rule::OneAnswer);
}

#[test]
fn gateways_that_do_not_share_are_caught() {
    is_caught(StoreKind::Redis, ("SEMEL_STORE", "memory:"), &[], Rule::OneLease);
}

#[test]
fn work_without_a_claim_is_caught() {
    let setting = ("SEMEL_POLICY_ON_STORE_DOWN", "open");
    is_caught(StoreKind::Redis, setting, &[Kind::StoreKill], Rule::ClaimFirst);
}
