//! What is read as a key, and the errors of what is not.

use super::*;

fn refused(text: &str, algorithms: &[&str]) -> KeysError {
    KeySet::read(text.as_bytes(), &rules(algorithms)).expect_err(text)
}

fn pem(label: &str) -> String {
    format!("-----BEGIN {label}-----\nMCowBQYDK2Vw\n-----END {label}-----\n")
}

#[test]
fn invalid_keys_are_reported_with_a_cure() {
    let key = SigningKey::new("ES256", "k-1");
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"] {
        // Also beside a public one.
        for text in [pem(label), key.pem() + &pem(label)] {
            assert_eq!(refused(&text, &["ES256"]), KeysError::PrivateKey, "{label}");
        }
    }
    let private = key_set(&[&key]).replace("\"kty\"", "\"d\":\"AAAA\",\"kty\"");
    assert_eq!(refused(&private, &["ES256"]), KeysError::PrivateKey);
    assert_eq!(refused(&pem("CERTIFICATE"), &["ES256"]), KeysError::NoPublicKey);
    assert_eq!(refused(&pem("RSA PUBLIC KEY"), &["ES256"]), KeysError::NoPublicKey);
    assert_eq!(refused(&pem("PUBLIC KEY"), &["ES256"]), KeysError::Unreadable);
    for text in ["", " \n"] {
        assert_eq!(refused(text, &["ES256"]), KeysError::Empty);
    }
    for text in ["{", "{}", r#"{"keys":{}}"#, "{\"keys\":1}"] {
        assert_eq!(refused(text, &["ES256"]), KeysError::NotAKeySet, "{text}");
    }
    for text in ["secret", "<html>", "[]"] {
        assert_eq!(refused(text, &["ES256"]), KeysError::UnknownForm, "{text}");
    }
    assert!(refused(&key.pem(), &["RS256", "ES384"]).to_string().contains("RS256, ES384"));
    assert!(KeysError::PrivateKey.to_string().contains("openssl pkey"));
}

#[test]
fn a_secret_that_could_be_guessed_is_refused() {
    let secret = "s".repeat(47);
    assert!(KeySet::read(secret.as_bytes(), &rules(&["HS256"])).is_ok());
    let short = refused(&secret, &["HS256", "HS384"]);
    assert!(short.to_string().contains("47 bytes, and HS384 needs at least 48"), "{short}");
    // The end of a line is none of it.
    assert!(matches!(refused(&format!("{secret}\n"), &["HS384"]), KeysError::ShortSecret { .. }));
    let jwk = format!(r#"{{"keys":[{{"kty":"oct","k":"{}"}}]}}"#, base64url(&[7; 31]));
    assert!(matches!(refused(&jwk, &["HS256"]), KeysError::NoneUsable(_)));
}

/// A set may have keys for other things, and of kinds that came later.
#[test]
fn keys_for_something_else_are_left_out() {
    let key = SigningKey::new("RS256", "k-1");
    let modulus = |bytes: usize| base64url(&vec![0xc5; bytes]);
    let others = [
        r#"{"kty":"OKP","crv":"X25519","x":"AAAA","kid":"k-1"}"#.to_owned(),
        r#"{"kty":"AKP","alg":"ML-DSA-65","pub":"AAAA","kid":"k-1"}"#.to_owned(),
        r#"{"kty":"EC","crv":"secp256k1","x":"AAAA","y":"AAAA"}"#.to_owned(),
        r#"{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA","kid":"k-1"}"#.to_owned(),
        format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB","kid":"k-1"}}"#, modulus(128)),
        format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB","use":"enc"}}"#, modulus(256)),
        format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB","key_ops":["encrypt"]}}"#, modulus(256)),
        format!(r#"{{"kty":"RSA","n":"{}","e":"AQAB","alg":"RSA-OAEP"}}"#, modulus(256)),
        r#"{"kid":"k-1"}"#.to_owned(),
        "7".to_owned(),
    ];
    let all = ["RS256", "ES256", "EdDSA"];
    for other in &others {
        let alone = format!(r#"{{"keys":[{other}]}}"#);
        assert!(matches!(refused(&alone, &all), KeysError::NoneUsable(_)), "{other}");
    }
    let set = format!(r#"{{"keys":[{},{}]}}"#, others.join(","), key.jwk());
    assert_eq!(KeySet::read(set.as_bytes(), &rules(&all)).unwrap().len(), 1);
    assert!(verified(&set, &all, &key.token(&ann())).is_ok());
}

/// `null` is how some issuers write that there is none.
#[test]
fn a_key_whose_algorithm_is_null_is_for_all_of_its_kind() {
    let key = SigningKey::new("RS256", "k-1");
    let value: serde_json::Value = serde_json::from_str(&key.jwk()).unwrap();
    let mut value = value.as_object().unwrap().clone();
    value.insert("alg".to_owned(), serde_json::Value::Null);
    let set = serde_json::json!({ "keys": [value] }).to_string();
    assert!(verified(&set, &["RS256"], &key.token(&ann())).is_ok());
}

/// A private key that an issuer has published is known to all: whatever it signs is refused, and the others go on.
#[test]
fn a_private_key_in_a_set_is_refused_alone() {
    let (published, other) = (SigningKey::new("ES256", "k-1"), SigningKey::new("ES256", "k-2"));
    let private = published.jwk().replace("\"kty\"", "\"d\":\"AAAA\",\"kty\"");
    let unnamed = published.jwk().replace("k-1", "k-3");
    let set = format!(r#"{{"keys":[{private},{},{unnamed}]}}"#, other.jwk());
    assert!(verified(&set, &["ES256"], &other.token(&ann())).is_ok());
    // Its public part, under whatever name, verifies nothing either.
    for name in ["k-1", "k-3"] {
        let header = format!(r#"{{"alg":"ES256","kid":"{name}"}}"#);
        let token = published.sign(&header, &ann());
        assert!(verified(&set, &["ES256"], &token).is_err(), "{name}");
    }
    let set = KeySet::read(set.as_bytes(), &rules(&["ES256"])).unwrap();
    assert_eq!((set.len(), set.private_keys()), (1, 2));
}

/// Any client has it, and could make tokens by it.
#[test]
fn a_public_key_without_its_lines_of_pem_is_no_secret() {
    for algorithm in ["RS256", "ES256", "ES384", "EdDSA"] {
        let pem = SigningKey::new(algorithm, "k-1").pem();
        let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let der = der(&pem);
        // As in PKCS #1, which begins with the modulus, if it is RSA.
        let inner = (algorithm == "RS256").then(|| der[24..].to_vec());
        for text in
            [Some(der.clone()), Some(base64.clone().into_bytes()), inner].into_iter().flatten()
        {
            let found = KeySet::read(&text, &rules(&["HS256"]));
            let is_refused = matches!(found, Err(KeysError::PublicForSecret { .. }));
            assert!(is_refused, "{algorithm}: {found:?}");
        }
        let lines = format!("\n{}\n{}\n", &base64[..60], &base64[60..]);
        assert!(matches!(refused(&lines, &["HS256"]), KeysError::PublicForSecret { .. }));
    }
    for begin in ["ssh-rsa", "ssh-ed25519", "ecdsa-sha2-nistp256", "sk-ssh-ed25519@openssh.com"] {
        let text = format!("{begin} {} ann@example.com\n", "A".repeat(68));
        assert!(matches!(refused(&text, &["HS256"]), KeysError::PublicForSecret { .. }), "{begin}");
    }
    let ssh2 = format!("---- BEGIN SSH2 PUBLIC KEY ----\n{}\n", "A".repeat(68));
    assert!(matches!(refused(&ssh2, &["HS256"]), KeysError::PublicForSecret { .. }));
    let marked = format!("\u{feff}{}", key_set(&[&SigningKey::new("ES256", "k-1")]));
    assert!(matches!(refused(&marked, &["HS256"]), KeysError::NoneUsable(_)), "{marked}");
    // Secrets that only look a little like it.
    for secret in ["0".repeat(64), "MII".repeat(20), format!("ssh{}", "x".repeat(40))] {
        assert_eq!(KeySet::read(secret.as_bytes(), &rules(&["HS256"])).unwrap().len(), 1);
    }
}

fn der(pem: &str) -> Vec<u8> {
    use rustls_pki_types::pem::{PemObject as _, SectionKind};
    <(SectionKind, Vec<u8>)>::from_pem_slice(pem.as_bytes()).unwrap().1
}
