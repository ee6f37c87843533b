//! Tokens that are made and signed here, by keys that are made here.

mod keys;
mod rules;

use std::sync::Arc;

use proptest::prelude::*;
use semel_testserver::{SigningKey, base64url, key_set, seconds_from_now};

use super::*;
use crate::token::{TokenRefused, VerifiedToken, VerifyToken as _};

const ISSUER: &str = "https://login.example.com";

/// Ann, for an hour.
fn ann() -> String {
    format!(r#"{{"iss":"{ISSUER}","sub":"ann","exp":{}}}"#, seconds_from_now(3600))
}

fn rules(algorithms: &[&str]) -> TokenRules {
    TokenRules::new(ISSUER, algorithms.iter().map(|name| name.parse().unwrap())).unwrap()
}

fn verifier(keys: &str, algorithms: &[&str]) -> TokenVerifier {
    let rules = rules(algorithms);
    let keys = KeySet::read(keys.as_bytes(), &rules).unwrap();
    TokenVerifier::new(rules, Arc::new(keys))
}

fn verified(keys: &str, algorithms: &[&str], token: &str) -> Result<VerifiedToken, TokenRefused> {
    verifier(keys, algorithms).verify(token)
}

/// `header.claims.signature` with another part in one place.
fn with_part(token: &str, place: usize, part: &str) -> String {
    let mut parts: Vec<_> = token.split('.').collect();
    parts[place] = part;
    parts.join(".")
}

#[test]
fn tokens_of_each_kind_of_key_are_verified_in_pem_and_in_a_set() {
    for algorithm in ["RS256", "RS512", "PS256", "ES256", "ES384", "EdDSA"] {
        let (key, ann) = (SigningKey::new(algorithm, "k-1"), ann());
        let token = key.token(&ann);
        for keys in [key.pem(), key_set(&[&key])] {
            let claims = verified(&keys, &[algorithm], &token).unwrap();
            assert_eq!(claims, VerifiedToken::new(ISSUER, ann.clone().into_bytes()), "{algorithm}");
            let other = SigningKey::new(algorithm, "k-1").token(&ann);
            assert_eq!(verified(&keys, &[algorithm], &other), Err(TokenRefused::Signature));
        }
    }
}

#[test]
fn tokens_are_verified_by_a_secret() {
    for algorithm in ["HS256", "HS512"] {
        let key = SigningKey::new(algorithm, "k-1");
        let rules = rules(&[algorithm]);
        let lines =
            [key.secret(), &[key.secret(), b"\n"].concat(), &[key.secret(), b"\r\n"].concat()]
                .map(<[u8]>::to_vec);
        for secret in lines.into_iter().chain([key_set(&[&key]).into_bytes()]) {
            let keys = KeySet::read(&secret, &rules).unwrap();
            let verifier = TokenVerifier::new(rules.clone(), Arc::new(keys));
            assert!(verifier.verify(&key.token(&ann())).is_ok(), "{algorithm}");
            let other = SigningKey::new(algorithm, "k-1").token(&ann());
            assert_eq!(verifier.verify(&other), Err(TokenRefused::Signature));
        }
    }
}

/// A public key is known to all: it must never be the secret of a token.
#[test]
fn a_public_key_is_no_secret() {
    let key = SigningKey::new("RS256", "k-1");
    let pem = key.pem();
    let forged = {
        let message =
            format!("{}.{}", base64url(br#"{"alg":"HS256"}"#), base64url(ann().as_bytes()));
        let secret = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, pem.as_bytes());
        let signature = aws_lc_rs::hmac::sign(&secret, message.as_bytes());
        format!("{message}.{}", base64url(signature.as_ref()))
    };
    assert_eq!(verified(&pem, &["RS256"], &forged), Err(TokenRefused::Algorithm));
    let result = KeySet::read(pem.as_bytes(), &rules(&["HS256"])).unwrap_err();
    assert!(matches!(result, KeysError::PublicForSecret { .. }), "{result}");
    let result = KeySet::read(key_set(&[&key]).as_bytes(), &rules(&["HS256"])).unwrap_err();
    assert!(matches!(result, KeysError::NoneUsable(_)), "{result}");
    let mixed = ["HS256", "RS256"].map(|name| name.parse().unwrap());
    assert!(matches!(TokenRules::new(ISSUER, mixed), Err(TokenRulesError::Mixed { .. })));
}

#[test]
fn the_algorithm_of_a_token_must_be_one_that_is_accepted() {
    let key = SigningKey::new("ES256", "k-1");
    for algorithm in ["none", "None", "NONE", "HS256", "RS256", "ES384", "es256", ""] {
        let header = format!(r#"{{"alg":"{algorithm}","kid":"k-1"}}"#);
        for token in [key.sign(&header, &ann()), with_part(&key.sign(&header, &ann()), 2, "")] {
            let refused = verified(&key.pem(), &["ES256"], &token);
            assert_eq!(refused, Err(TokenRefused::Algorithm), "{algorithm}");
        }
    }
    // The issuer says what its key is for.
    let rsa = SigningKey::new("RS256", "k-1");
    let other = rsa.sign(r#"{"alg":"PS256","kid":"k-1"}"#, &ann());
    let refused = verified(&key_set(&[&rsa]), &["RS256", "PS256"], &other);
    assert_eq!(refused, Err(TokenRefused::UnknownKey));
}

#[test]
fn modified_tokens_are_refused() {
    let key = SigningKey::new("EdDSA", "k-1");
    let (keys, token) = (key.pem(), key.token(&ann()));
    let bob = base64url(ann().replace("ann", "bob").as_bytes());
    let changes = [
        (with_part(&token, 1, &bob), TokenRefused::Signature),
        (with_part(&token, 2, ""), TokenRefused::Signature),
        (with_part(&token, 2, "AAAA"), TokenRefused::Signature),
        (format!("{token}="), TokenRefused::Malformed),
        (format!("{token}.AAAA"), TokenRefused::Malformed),
        (with_part(&token, 0, "AAAA"), TokenRefused::Malformed),
        (with_part(&token, 1, "?"), TokenRefused::Malformed),
        ("a.b".to_owned(), TokenRefused::Malformed),
        (String::new(), TokenRefused::Malformed),
        (key.sign(r#"{"alg":"EdDSA","crit":["b64"],"b64":false}"#, &ann()), TokenRefused::Critical),
        (key.sign(r#"{"alg":"EdDSA","crit":[]}"#, &ann()), TokenRefused::Critical),
        (key.sign(r#"{"alg":"EdDSA","alg":"none"}"#, &ann()), TokenRefused::Malformed),
        (key.sign(r#"{"alg":"EdDSA","kid":7}"#, &ann()), TokenRefused::Malformed),
        (key.sign(r#"{"kid":"k-1"}"#, &ann()), TokenRefused::Malformed),
        (key.sign(r#""EdDSA""#, &ann()), TokenRefused::Malformed),
        (key.token(r#"["sub","ann"]"#), TokenRefused::Malformed),
        (key.token(&ann().replace('}', r#","sub":"bob"}"#)), TokenRefused::Malformed),
        (key.token("not json"), TokenRefused::Malformed),
        (
            key.token(&ann().replace("ann", &"a".repeat(16_384))),
            TokenRefused::TooLong { max: 16_384 },
        ),
    ];
    for (changed, why) in changes {
        assert_eq!(verified(&keys, &["EdDSA"], &changed), Err(why), "{changed}");
    }
}

#[test]
fn a_token_names_the_key_it_is_signed_with() {
    let keys = ["k-1", "k-2", "k-3"].map(|id| SigningKey::new("ES256", id));
    let set = key_set(&[&keys[0], &keys[1]]);
    let token = |key: &SigningKey, id: &str| {
        let id = if id.is_empty() { String::new() } else { format!(r#","kid":"{id}""#) };
        key.sign(&format!(r#"{{"alg":"ES256"{id}}}"#), &ann())
    };
    let result = |keys: &str, token: &str| verified(keys, &["ES256"], token).map(|_| ());
    assert_eq!(result(&set, &token(&keys[0], "k-1")), Ok(()));
    assert_eq!(result(&set, &token(&keys[1], "k-2")), Ok(()));
    assert_eq!(result(&set, &token(&keys[1], "k-1")), Err(TokenRefused::Signature));
    assert_eq!(result(&set, &token(&keys[2], "k-3")), Err(TokenRefused::UnknownKey));
    assert_eq!(result(&set, &token(&keys[1], "")), Ok(()), "all are tried");
    assert_eq!(result(&set, &token(&keys[2], "")), Err(TokenRefused::Signature));
    // Keys in PEM have no names.
    let pem = format!("{}{}", keys[0].pem(), keys[1].pem());
    assert_eq!(result(&pem, &token(&keys[1], "k-2")), Ok(()));
    assert_eq!(result(&pem, &token(&keys[2], "k-3")), Err(TokenRefused::Signature));
}

#[test]
fn nothing_secret_is_shown() {
    let key = SigningKey::new("HS256", "k-1");
    let (set, token) = (key_set(&[&key]), key.token(&ann()));
    let verifier = verifier(&set, &["HS256"]);
    let shown = format!("{verifier:?} {:?}", verifier.verify(&token).unwrap());
    assert!(shown.contains("k-1") && !shown.contains("ann"), "{shown}");
    assert!(!shown.contains(&format!("{:?}", key.secret()[0..4].to_vec())), "{shown}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Whatever is changed in a token, it is refused, and nothing panics.
    #[test]
    fn no_change_of_a_token_is_believed(at in any::<prop::sample::Index>(), to in any::<char>()) {
        let key = SigningKey::new("EdDSA", "k-1");
        let token = key.token(&ann());
        let at = at.index(token.len());
        let changed = format!("{}{to}{}", &token[..at], &token[at + 1..]);
        prop_assume!(changed != token);
        prop_assert!(verified(&key.pem(), &["EdDSA"], &changed).is_err());
    }

    #[test]
    fn nothing_made_up_is_believed(token in "([A-Za-z0-9_-]{0,40}\\.?){0,5}|.{0,60}") {
        let key = SigningKey::new("EdDSA", "k-1");
        prop_assert!(verified(&key.pem(), &["EdDSA"], &token).is_err());
    }

    #[test]
    fn any_bytes_are_keys_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let read = KeySet::read(&bytes, &rules(&["RS256", "ES256", "EdDSA"]));
        prop_assert!(read.is_err());
    }
}
