//! `[jwt]`, and what a scope may have with it and without.

use std::path::PathBuf;
use std::time::Duration;

use super::{complete, good, load, text_of};
use crate::config::KeysFrom;

const ROUTE: &str = "[[route]]\nmatch = \"POST /a\"\nscope = [\"jwt:sub\"]\n";

fn with(table: &str) -> String {
    complete(&format!("{table}\n{ROUTE}"))
}

fn all(keys: &str, algorithms: &str) -> String {
    with(&format!("[jwt]\nkeys = {keys}\nalgorithms = {algorithms}\nissuer = \"https://i\""))
}

#[test]
fn the_table_is_kept() {
    let text = r#"jwt = { keys = "https://h/jwks?a=b", algorithms = ["RS256", "EdDSA"], issuer = "https://i", audience = ["a", "b"], leeway = "5s", refresh = "1h", min_refresh = "1s", ca = "ca.pem" }"#;
    let jwt = load(&with(text)).unwrap().jwt.unwrap();
    assert_eq!(jwt.keys.to_string(), "https://h/jwks");
    assert_eq!(jwt.algorithms, ["RS256", "EdDSA"].map(|name| name.parse().unwrap()));
    assert_eq!((jwt.issuer.as_str(), jwt.audience.join(" ")), ("https://i", "a b".to_owned()));
    let times = [jwt.leeway, jwt.refresh, jwt.min_refresh].map(|time| time.as_secs());
    assert_eq!((times, jwt.ca), ([5, 3600, 1], Some(PathBuf::from("ca.pem"))));
    let jwt = load(&all(r#""keys.pem""#, r#"["ES256"]"#)).unwrap().jwt.unwrap();
    assert_eq!(jwt.keys, KeysFrom::File(PathBuf::from("keys.pem")));
    assert_eq!((jwt.leeway, jwt.audience.len()), (Duration::from_secs(30), 0));
    assert_eq!(good("").jwt, None);
}

#[test]
fn what_does_not_go_together_is_told() {
    for (text, what) in [
        (with("[jwt]\nkeys = \"k\""), "`keys` is set without `algorithms`"),
        (with("[jwt]\nkeys = \"k\""), "`keys` is set without `issuer`"),
        (with("[jwt]\nissuer = \"i\""), "`issuer` is set without `keys`"),
        (with("[jwt]\nrefresh = \"1m\""), "`refresh` is set without `keys`"),
        (all(r#""k""#, r#"["none"]"#), "`algorithms` has \"none\", which is not an algorithm"),
        (all(r#""k""#, "[]"), "`algorithms` is empty"),
        (all(r#""k""#, r#"["RS256", "HS256"]"#), "HS256, which goes with a secret, and RS256"),
        (all(r#""https://h/k""#, r#"["HS256"]"#), "`keys` is a URL"),
        (all("\"k\"\nca = \"ca.pem\"", r#"["RS256"]"#), "`ca` is for TLS"),
        (all("\"k\"\nrefresh = \"5s\"", r#"["RS256"]"#), "longer than `refresh` (\"5s\")"),
    ] {
        let faults = load(&text).expect_err(&text);
        assert!(text_of(&faults).contains(what), "{what}\n{faults}");
    }
    let unused = all(r#""k""#, r#"["RS256"]"#).replace("jwt:sub", "auto");
    let faults = load(&unused).unwrap_err();
    assert_eq!(text_of(&faults), "semel.toml:3:8: `keys` is set, and no `scope` has a jwt:CLAIM");
}

/// A client could write another's name into its token.
#[test]
fn payments_take_no_claims_that_nothing_verifies() {
    let payments = |more: &str| complete(&format!("{ROUTE}preset = \"payments\"\n{more}"));
    let faults = load(&payments("")).unwrap_err();
    let text = text_of(&faults);
    assert!(text.starts_with("semel.toml:4:9: `scope` is [\"jwt:sub\"], and tokens are"), "{text}");
    assert!(text.ends_with("refuses (preset payments)"), "{text}");
    assert!(faults.to_string().contains("behind-a-verifier"), "{faults}");
    load(&payments("mode = \"off\"")).unwrap();
    load(&payments("jwt_unverified = \"behind-a-verifier\"")).unwrap();
    load(&(all(r#""k""#, r#"["RS256"]"#) + "preset = \"payments\"\n")).unwrap();
    // Others are warned.
    let refusing = complete(&format!("{ROUTE}jwt_unverified = \"refuse\""));
    assert!(load(&refusing).is_err());
}

/// A warning beside money would be read by no client.
#[test]
fn payments_take_nothing_less_than_a_verifier_in_front() {
    for mode in ["protect", "shadow"] {
        let warned = format!("preset = \"payments\"\nmode = \"{mode}\"\njwt_unverified = \"warn\"");
        let faults = load(&complete(&format!("{ROUTE}{warned}"))).expect_err(mode);
        let text = text_of(&faults);
        assert!(text.starts_with("semel.toml:7:18: `jwt_unverified` is \"warn\""), "{text}");
        assert!(faults.to_string().contains("behind-a-verifier"), "{faults}");
    }
    // A route of [policy] that brings the preset itself, and one that is not protected.
    let general =
        "[policy]\njwt_unverified = \"warn\"\nscope = [\"jwt:sub\"]\npreset = \"payments\"";
    assert!(load(&complete(general)).is_err());
    let off = "preset = \"payments\"\nmode = \"off\"\njwt_unverified = \"warn\"";
    load(&complete(&format!("{ROUTE}{off}"))).unwrap();
    let no_claim = "[policy]\njwt_unverified = \"warn\"\npreset = \"payments\"";
    load(&complete(no_claim)).unwrap();
}

#[test]
fn the_description_says_whether_tokens_are_verified() {
    let shown = |text: &str| load(text).unwrap().describe();
    let unverified = shown(&complete(ROUTE));
    assert!(unverified.contains("note: tokens are not verified here"), "{unverified}");
    let trusted = complete(&format!("{ROUTE}jwt_unverified = \"behind-a-verifier\""));
    assert!(!shown(&trusted).contains("not verified here"));
    let verified = shown(&all(r#""https://h/k?secret=1""#, r#"["RS256"]"#));
    assert!(verified.contains("note: tokens are verified here"), "{verified}");
    assert!(verified.contains("tokens for other services of this issuer"), "{verified}");
    let one = all("\"k\"\naudience = [\"a\"]", r#"["RS256"]"#);
    assert!(!shown(&one).contains("other services of this issuer"));
}
