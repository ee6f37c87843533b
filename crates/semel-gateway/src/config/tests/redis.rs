//! A store on Redis, and what it has to keep.

use super::{complete, good, load, text_of};
use crate::config::StoreChoice;

#[test]
fn every_kind_of_address_is_taken() {
    for url in [
        "redis://h",
        "rediss://u:p@h:1/2",
        "unix:///run/redis.sock",
        "redis+sentinel://a,b/main",
        "redis+cluster://a:1,b:2",
    ] {
        let config = good(&format!("store = {url:?}"));
        assert!(matches!(&config.store, StoreChoice::Redis(_)), "{:?}", config.store);
    }
}

#[test]
fn a_password_is_not_told_with_a_fault() {
    for value in ["redis://u:hunter2@h?pool_max=0", "redis://u:hunter2@h@h", "redis:u:hunter2@h"] {
        let text = text_of(&load(&complete(&format!("store = {value:?}"))).expect_err(value));
        assert!(!text.contains("hunter"), "{text}");
    }
}

/// Money is not put on a server that forgets, unless the configuration says so.
#[test]
fn payments_need_a_durable_store() {
    let with = |lines: &str| good(&format!("store = \"redis://h\"\n{lines}")).require_durable;
    assert!(!with(""));
    assert!(with("require_durable = true"));
    assert!(with("[policy]\npreset = \"payments\""));
    assert!(with("[[route]]\nmatch = \"POST /charges\"\npreset = \"payments\""));
    assert!(!with("require_durable = false\n[policy]\npreset = \"payments\""));
}

/// The story: `semel check` showed it as unset although it was on.
#[test]
fn what_payments_require_is_shown_with_its_reason() {
    let row = |lines: &str| {
        let shown = good(&format!("store = \"redis://h\"\n{lines}")).describe();
        let row = shown.lines().find(|line| line.contains("require_durable"));
        row.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(row(""), "require_durable false default");
    let payments = "[[route]]\nmatch = \"POST /charges\"\npreset = \"payments\"";
    assert_eq!(row(payments), "require_durable true preset payments");
    let without = row(&format!("require_durable = false\n{payments}"));
    assert_eq!(without, "require_durable false file line 3");
    // It takes effect at the next start, so a reload has to say so.
    let (before, after) =
        (good("store = \"redis://h\""), format!("store = \"redis://h\"\n{payments}"));
    assert_eq!(before.needs_restart(&good(&after)), ["require_durable"]);
}

#[test]
fn replicas_are_waited_for_on_redis_only() {
    let config = good("store = \"redis://h\"\nwait_replicas = 2");
    assert_eq!(config.wait_replicas, Some(2));
    assert_eq!(good("store = \"redis://h?wait_replicas=1\"").wait_replicas, None);
}

#[cfg(feature = "postgres")]
#[test]
fn redis_may_be_before_postgres() {
    let url = "tiered:redis://:hunter2@h?prefix=a:|postgres://u:hunter2@d/shop";
    let config = good(&format!("store = {url:?}"));
    assert!(matches!(&config.store, StoreChoice::Tiered { .. }), "{:?}", config.store);
    let shown = config.describe();
    let expected = "tiered:redis://h:6379?prefix=a:|postgres://u@d:5432/shop?schema=semel";
    assert!(shown.contains(expected) && !shown.contains("hunter"), "{shown}");
    for (url, said) in [
        ("tiered:postgres://u:hunter2@d/shop|redis://h", "not Redis before PostgreSQL"),
        ("tiered:redis://:hunter2@h", "not Redis before PostgreSQL"),
        ("tiered:redis://:hunter2@h|memory:", "not Redis before PostgreSQL"),
        ("tiered:redis://:hunter2@h?pool_max=0|postgres://u@d/shop", "pool_max is \"0\""),
        ("tiered:redis://:hunter2@h|postgres://d/shop", "names no user"),
    ] {
        let text = text_of(&load(&complete(&format!("store = {url:?}"))).expect_err(url));
        assert!(text.contains(said) && !text.contains("hunter"), "{text}");
    }
}
