//! Issuer, audience and times.

use std::time::Duration;

use semel_core::Timestamp;
use semel_store::ManualClock;
use serde_json::{Map, Value, json};

use super::*;

const NOW: i64 = 1_800_000_000;

fn judged(rules: &TokenRules, claims: &Value) -> Result<(), TokenRefused> {
    let mut all: Map<String, Value> =
        json!({"iss": ISSUER, "exp": NOW + 1}).as_object().unwrap().clone();
    for (name, value) in claims.as_object().unwrap() {
        if value.is_null() {
            all.remove(name);
        } else {
            all.insert(name.clone(), value.clone());
        }
    }
    rules.judge(&all, Timestamp::from_millis(NOW.unsigned_abs() * 1000))
}

/// Half a second after `seconds`.
fn fraction(seconds: i64) -> serde_json::Value {
    serde_json::from_str(&format!("{seconds}.5")).unwrap()
}

#[test]
fn a_token_has_its_time() {
    let rules = rules(&["RS256"]).leeway(Duration::from_secs(10));
    let malformed = Err(TokenRefused::Malformed);
    for (claims, expected) in [
        (json!({}), Ok(())),
        (json!({"exp": NOW - 9}), Ok(())),
        (json!({"exp": NOW - 10}), Err(TokenRefused::Expired)),
        (json!({"exp": NOW - 9, "nbf": NOW + 10}), Ok(())),
        (json!({"nbf": NOW + 11}), Err(TokenRefused::NotYetValid)),
        (json!({"nbf": 0.5}), Ok(())),
        (json!({"exp": fraction(NOW - 11)}), Err(TokenRefused::Expired)),
        (json!({"exp": 1e300}), Ok(())),
        (json!({"exp": -1}), Err(TokenRefused::Expired)),
        (json!({"exp": null}), Err(TokenRefused::NoExpiry)),
        (json!({"exp": "1900000000"}), malformed.clone()),
        (json!({"exp": [NOW]}), malformed.clone()),
        (json!({"nbf": true}), malformed),
    ] {
        assert_eq!(judged(&rules, &claims), expected, "{claims}");
    }
}

#[test]
fn a_token_has_its_issuer() {
    let rules = rules(&["RS256"]);
    for issuer in [json!(null), json!(""), json!(1), json!([ISSUER]), json!(format!("{ISSUER}/"))] {
        assert_eq!(judged(&rules, &json!({"iss": issuer})), Err(TokenRefused::Issuer), "{issuer}");
    }
    assert_eq!(TokenRules::new("", ["RS256".parse().unwrap()]), Err(TokenRulesError::NoIssuer));
    assert_eq!(TokenRules::new(ISSUER, []), Err(TokenRulesError::NoAlgorithm));
}

#[test]
fn a_token_is_for_one_of_the_audiences() {
    let rules = rules(&["RS256"]);
    assert_eq!(judged(&rules, &json!({"aud": "anybody"})), Ok(()), "it is not looked at");
    let rules = rules.audience(["a", "b"]);
    for audience in [json!("a"), json!("b"), json!(["x", "b"])] {
        assert_eq!(judged(&rules, &json!({"aud": audience})), Ok(()), "{audience}");
    }
    for audience in [json!(null), json!("c"), json!(""), json!([]), json!(["ab"]), json!({"a": 1})]
    {
        let expected = judged(&rules, &json!({"aud": audience}));
        assert_eq!(expected, Err(TokenRefused::Audience), "{audience}");
    }
}

/// A token that is verified now is refused when its time is over.
#[test]
fn the_clock_is_asked_each_time() {
    let key = SigningKey::new("EdDSA", "k-1");
    let clock = ManualClock::at(Timestamp::from_millis(NOW.unsigned_abs() * 1000));
    let verifier = verifier(&key.pem(), &["EdDSA"]).clock(clock.clone());
    let token = key.token(&json!({"iss": ISSUER, "exp": NOW + 60}).to_string());
    assert!(verifier.verify(&token).is_ok());
    clock.advance(Duration::from_secs(89));
    assert!(verifier.verify(&token).is_ok(), "30 s of leeway");
    clock.advance(Duration::from_secs(1));
    assert_eq!(verifier.verify(&token), Err(TokenRefused::Expired));
}
