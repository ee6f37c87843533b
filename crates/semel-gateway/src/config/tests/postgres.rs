//! A store on PostgreSQL: what it takes, and that its password is never shown.

use proptest::prelude::*;

use super::{complete, good, load, load_with, text_of};
use crate::config::{Config, Faults, Flags, StoreChoice};

/// What is written for `store`, and its fault.
const FAULTY: &[(&str, &str)] = &[
    (r#""postgres://h/d""#, r#"`store` is "postgres://h/d", and it names no user"#),
    (
        r#""postgres://u:hunter2@h/d?sslmode=maybe""#,
        r#"`store` is "postgres://***", in which sslmode is "maybe""#,
    ),
    (
        r#""postgres://u:hunter2@h/d?pool_max=0""#,
        r#"`store` is "postgres://***", in which pool_max is "0""#,
    ),
    (
        r#""postgresql://u:hunter2@h/d?schema=A""#,
        r#"`store` is "postgresql://***", in which schema is "A""#,
    ),
    (
        r#""postgres://u:hunter@2@h/d""#,
        r#"`store` is "postgres://***", whose password has no clear end"#,
    ),
    (r#""postgres:u:hunter2@h/d""#, r#"`store` is "***", which is not a store"#),
];

/// Values with a password that are wrong, or stand where something else is.
const SECRETS: &[&str] = &[
    r#"store = "postgres://u:hunter2@h:port/d""#,
    r#"store = "postgres\u003a//u:hunter2@h/d?sslmode=maybe""#,
    r#"store = "postgres://u:hunter2 '\"x@h/d?sslmode=maybe""#,
    "store = 'postgres://u:hunter2\" @h/d?sslmode=maybe'",
    "store = \"\"\"postgres://u:hunter\\\n2@h/d?sslmode=maybe\"\"\"",
    r#"store = "postgres://h/d?user=u&password=hunter2&sslmode=maybe""#,
    r#"store = "postgres://h/d?user=u&pass%77ord=hunter2&sslmode=maybe""#,
    r#"store = "u:hunter2@h/d""#,
    r#"store = ["postgres://u:hunter2@h/d"]"#,
    r#"store = { url = "postgres://u:hunter2@h/d" }"#,
    r#"store = "postgres://u:hunter2@h/d"#,
    "store = postgres://u:hunter2@h/d",
    "store = \"postgres://u@h/d\"\nstore = \"postgres://u:hunter2@h/d\"",
    "durability = \"power\"\nstore = \"postgres://u:hunter2@h/d\"",
    r#"stoer = "postgres://u:hunter2@h/d""#,
    r#"listen = "postgres://u:hunter2@h/d""#,
];

fn assert_silent(faults: &Faults) {
    for text in [faults.to_string(), format!("{faults:?}"), text_of(faults)] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn every_faulty_address_has_its_fault() {
    for (value, expected) in FAULTY {
        let faults = load(&complete(&format!("store = {value}"))).expect_err(value);
        let text = text_of(&faults);
        assert!(text.starts_with(&format!("semel.toml:2:9: {expected}")), "{text}");
        assert_eq!(faults.len(), 1);
        assert_silent(&faults);
    }
}

#[test]
fn faults_never_tell_a_password() {
    for text in SECRETS {
        assert_silent(&load(&complete(text)).expect_err(text));
    }
    let url = format!("postgres://u:hunter2{}@h/d?sslmode=maybe", "x".repeat(80));
    assert_silent(
        &load_with(&complete(""), &[("SEMEL_STORE", &url)], &Flags::default()).unwrap_err(),
    );
    let flags = Flags { store: Some(url), ..Flags::default() };
    assert_silent(&load_with(&complete(""), &[], &flags).unwrap_err());
    assert!(!format!("{flags:?}").contains("hunter"), "{flags:?}");
}

#[test]
fn a_fault_is_shown_with_its_place_and_cure() {
    let faults = load(&complete(r#"store = "postgres://u:hunter2@h/d?sslmode=maybe""#));
    assert_eq!(
        faults.unwrap_err().to_string(),
        r#"semel.toml:2:9: `store` is "postgres://***", in which sslmode is "maybe"
    2 | store = "postgres://***************************"
      |         ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    cure: write one of disable, prefer, require, verify-ca, verify-full"#
    );
}

#[test]
fn what_is_in_effect_is_told_without_the_password() {
    let config = good(r#"store = "postgres://u:hunter2@h/d?sslmode=require&password=hunter3""#);
    let described = config.describe();
    let line = described.lines().find(|line| line.trim_start().starts_with("store")).unwrap();
    assert!(line.contains(r#""postgres://u@h:5432/d?schema=semel&sslmode=require""#), "{line}");
    assert_eq!(config.store.to_string(), "postgres://u@h:5432/d?schema=semel");
    for text in [described, format!("{config:?}"), format!("{:?}", config.store)] {
        assert!(!text.contains("hunter"), "{text}");
    }
}

#[test]
fn another_password_needs_a_restart_and_is_not_told() {
    let old = good(r#"store = "postgres://u:hunter2@h/d""#);
    let new = good(r#"store = "postgres://u:hunter3@h/d""#);
    assert_eq!(old.needs_restart(&new), ["store"]);
    let address = r#""postgres://u@h:5432/d?schema=semel""#;
    assert_eq!(old.changes(&new), [format!("store: {address} -> {address}")]);
}

#[test]
fn durability_is_not_for_postgres() {
    let text = "durability = \"power\"\nstore = \"postgres://u:hunter2@h/d\"";
    let faults = load(&complete(text)).unwrap_err();
    assert!(text_of(&faults).contains("is not embedded"), "{faults}");
    assert_silent(&faults);
}

#[test]
fn who_needs_only_the_store_needs_no_upstream() {
    let store = |text: &str| Config::store(Some(("f", text)), [], &Flags::default());
    let found = store("store = \"postgres://u@h/d\"\n[[route]]\nmatch = \"POST /a\"").unwrap();
    assert!(matches!(&found, StoreChoice::Postgres(_)), "{found}");
    // Misspelt, it would be the default.
    let faults = store("stoer = \"postgres://u:hunter2@h/d\"").unwrap_err();
    assert_eq!(text_of(&faults), "f:1:1: `stoer` is not known here");
    assert_silent(&faults);
}

proptest! {
    /// Whatever is in it, and however well it is written.
    #[test]
    fn no_password_is_ever_told(
        before in "[ -~]{0,12}",
        after in "[ -~]{0,12}",
        end in prop::sample::select(&["", "?sslmode=maybe", "?schema=s", ":x", "?x=y"][..]),
        form in 0..4_usize,
    ) {
        // Long enough not to come about by chance, and in the middle, where it is least expected.
        let url = format!("postgres://u:{before}hunter2{after}@h/d{end}");
        let text = match form {
            0 => format!("store = {url:?}"),
            1 => format!("store = '{url}'"),
            2 => format!("store = \"{url}\""),
            _ => format!("durability = \"power\"\nstore = {url:?}"),
        };
        match load(&complete(&text)) {
            Ok(config) => {
                let shown = format!("{config:?} {} {}", config.describe(), config.store);
                prop_assert!(!shown.contains("hunter2"), "{shown}");
            }
            Err(faults) => prop_assert!(!faults.to_string().contains("hunter2"), "{faults}"),
        }
    }
}
