//! Tokens that identify a client: verified by keys that may change while the gateway serves.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use semel_testserver::{SigningKey, key_set, seconds_from_now};
use tempfile::TempDir;

use crate::support::{Call, Gateway, Reply, Setup, Upstream, at_once, eventually};

const ISSUER: &str = "https://login.example.com";

/// Claims of a token for an hour.
fn claims(subject: &str) -> String {
    let exp = seconds_from_now(3600);
    format!(r#"{{"iss":"{ISSUER}","aud":["other","shop"],"sub":"{subject}","exp":{exp}}}"#)
}

fn by(key: &SigningKey, subject: &str) -> Call {
    with(&key.token(&claims(subject)))
}

fn with(token: &str) -> Call {
    Call::charge("k").from(&format!("Bearer {token}"))
}

/// A gateway that believes tokens which are signed by these keys.
fn believing(upstream: &Upstream, keys: &str, algorithm: &str, more: &str) -> Setup {
    let comma = if more.is_empty() { "" } else { ", " };
    let table = format!(
        "jwt = {{ keys = \"{keys}\", algorithms = [\"{algorithm}\"], issuer = \"{ISSUER}\", \
         audience = [\"shop\"]{comma}{more} }}"
    );
    Setup::before(upstream).memory().top(&table).policy("scope = [\"jwt:sub\"]")
}

/// A file of keys.
fn file(text: &str) -> (TempDir, PathBuf) {
    let home = tempfile::tempdir().expect("a directory");
    let path = home.path().join("keys");
    write(&path, text);
    (home, path)
}

/// Replaces the file atomically, so that a reader never sees half of it.
fn write(path: &Path, text: &str) {
    let new = path.with_extension("new");
    fs::write(&new, text).expect("a file");
    fs::rename(&new, path).expect("a file");
}

/// A server of keys, which the test may change.
fn issuer(keys: &[&SigningKey]) -> (Arc<Mutex<String>>, Upstream) {
    let set = Arc::new(Mutex::new(key_set(keys)));
    let shown = set.clone();
    let server = Upstream::with(move |_| Reply::new(200, shown.lock().expect("keys").clone()));
    (set, server)
}

/// A server in the place of one that was there before.
fn serving(text: &str, address: SocketAddr) -> Upstream {
    eventually("the address is free", || TcpListener::bind(address).map(drop).ok());
    let text = text.to_owned();
    Upstream::at(address, move |_| Reply::new(200, text.clone()))
}

fn url(server: &Upstream) -> String {
    format!("http://{}/jwks.json", server.address())
}

#[track_caller]
fn assert_refused(call: &Call, gateway: &Gateway, why: &str) {
    let answer = call.send(gateway);
    answer.assert_problem(401, "idempotency_scope_missing", false);
    assert!(answer.text().contains(why), "{why}: {}", answer.text());
}

/// A client that renews its token between two tries is the same client.
#[test]
fn a_key_belongs_to_a_claim_that_was_verified() {
    for algorithm in ["RS256", "ES256", "EdDSA"] {
        let (upstream, key) = (Upstream::start(), SigningKey::new(algorithm, "k-1"));
        let (_home, path) = file(&key.pem());
        let gateway = believing(&upstream, &path.display().to_string(), algorithm, "").start();
        assert_eq!(by(&key, "alice").send(&gateway).status, 201);
        assert!(!by(&key, "bob").send(&gateway).is_replay());
        let renewed = claims("alice").replace('}', r#","jti":"2"}"#);
        assert!(with(&key.token(&renewed)).send(&gateway).is_replay());
        assert_eq!(upstream.count(), 2);
    }
}

/// Nothing is executed and nothing claimed: the good token that comes last is a first attempt.
#[test]
fn a_bad_token_gets_401_and_nothing_executes() {
    let (upstream, key) = (Upstream::start(), SigningKey::new("RS256", "k-1"));
    let (_home, path) = file(&key.pem());
    let gateway = believing(&upstream, &path.display().to_string(), "RS256", "").start();
    let good = claims("alice");
    let (expired, later) = (seconds_from_now(-60), seconds_from_now(3600));
    let times = |from: &str, to: &str| key.token(&good.replace(from, to));
    let bad = [
        (times(&later.to_string(), &expired.to_string()), "has expired"),
        (times("\"exp\"", "\"expires\""), "when it expires"),
        (times("\"sub\"", "\"nbf\":99999999999,\"sub\""), "not valid yet"),
        (times(ISSUER, "https://evil.example.com"), "another issuer"),
        (times("shop", "bank"), "another audience"),
        (times("\"sub\"", "\"name\""), "no claim sub"),
        (times("\"alice\"", "[\"alice\"]"), "no claim sub"),
        (SigningKey::new("RS256", "k-1").token(&good), "signature of the token is wrong"),
        (key.sign(r#"{"alg":"none"}"#, &good), "an algorithm that is not accepted"),
        (SigningKey::new("HS256", "k-1").token(&good), "an algorithm that is not accepted"),
        (SigningKey::new("ES256", "k-1").token(&good), "an algorithm that is not accepted"),
        (key.sign(r#"{"alg":"RS256","crit":["exp"]}"#, &good), "crit"),
        ("a.b.c".to_owned(), "not a JSON Web Token"),
        ("a".repeat(20_000), "longer than 16384 bytes"),
    ];
    for (token, why) in &bad {
        assert_refused(&with(token), &gateway, why);
        assert!(!gateway.log().contains(token), "{why}");
    }
    let twice = with(&key.token(&good)).from("Bearer other");
    assert_refused(&twice, &gateway, "more than one Authorization header");
    assert_refused(&Call::charge("k").from("Basic YTpi"), &gateway, "Bearer TOKEN");
    assert_eq!(upstream.count(), 0);
    assert!((gateway.metrics().attempts("scope_missing") - 16.0).abs() < 0.5);
    let refused =
        |reason| gateway.metrics().find("semel_tokens_refused_total", &[("reason", reason)]);
    assert_eq!((refused("expired"), refused("algorithm")), (Some(1.0), Some(3.0)));
    let answer = with(&key.token(&good)).send(&gateway);
    assert_eq!((answer.status, answer.is_replay(), upstream.count()), (201, false, 1));
}

/// An issuer's mistake with one key is logged, and costs no more than that key.
#[test]
fn a_private_key_in_a_key_set_is_refused_alone_and_logged() {
    let upstream = Upstream::start();
    let [private, sound] = ["k-1", "k-2"].map(|id| SigningKey::new("ES256", id));
    let set = key_set(&[&private, &sound]).replacen("\"kty\"", "\"d\":\"AAAA\",\"kty\"", 1);
    let (_home, path) = file(&set);
    let gateway = believing(&upstream, &path.display().to_string(), "ES256", "").start();
    assert_eq!(by(&sound, "alice").send(&gateway).status, 201);
    assert_refused(&by(&private, "alice"), &gateway, "key");
    assert_eq!(upstream.count(), 1);
    let log = gateway.terminate().1;
    let line = log.lines().find(|line| line.contains("publishes this private key"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(line.contains("ERROR") && line.contains("k-1") && !line.contains("AAAA"), "{line}");
}

/// What passes without a key passes with any token: the API goes on checking them.
#[test]
fn requests_that_are_not_protected_are_not_looked_at() {
    let (upstream, key) = (Upstream::start(), SigningKey::new("EdDSA", "k-1"));
    let (_home, path) = file(&key.pem());
    let gateway = believing(&upstream, &path.display().to_string(), "EdDSA", "").start();
    assert_eq!(Call::new("GET", "/").from("Bearer forged").send(&gateway).status, 201);
}

/// In shadow mode a bad token is counted, and all passes.
#[test]
fn shadow_mode_counts_bad_tokens() {
    let (upstream, key) = (Upstream::start(), SigningKey::new("EdDSA", "k-1"));
    let (_home, path) = file(&key.pem());
    let gateway = believing(&upstream, &path.display().to_string(), "EdDSA", "")
        .policy("mode = \"shadow\"")
        .start();
    let forged = SigningKey::new("EdDSA", "k-1");
    for _ in 0..2 {
        let answer = by(&forged, "alice").send(&gateway);
        assert_eq!((answer.status, answer.is_replay()), (201, false));
    }
    eventually("both are counted", || {
        (gateway.metrics().attempts("scope_missing") > 1.5).then_some(())
    });
    assert_eq!(upstream.count(), 2);
}

/// Records of before are found, and the old key is no longer believed.
#[test]
fn keys_in_a_file_are_replaced_without_a_restart() {
    let upstream = Upstream::start();
    let [old, new] = [SigningKey::new("ES256", "k-1"), SigningKey::new("ES256", "k-2")];
    let (_home, path) = file(&old.pem());
    let gateway = believing(&upstream, &path.display().to_string(), "ES256", "").start();
    assert_eq!(by(&old, "alice").send(&gateway).status, 201);
    assert_refused(&by(&new, "alice"), &gateway, "signature of the token is wrong");
    write(&path, &new.pem());
    eventually("the new key is believed", || {
        by(&new, "alice").send(&gateway).is_replay().then_some(())
    });
    assert_refused(&by(&old, "alice"), &gateway, "signature of the token is wrong");
    // What is no key is not taken, and said.
    write(&path, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    eventually("the log says so", || gateway.log().contains("it has a private key").then_some(()));
    assert!(by(&new, "alice").send(&gateway).is_replay());
    fs::remove_file(&path).expect("a file");
    assert!(by(&new, "alice").send(&gateway).is_replay());
    assert_eq!(upstream.count(), 1);
}

/// The first token with a new key waits for the keys, and is believed.
#[test]
fn keys_at_a_url_are_replaced_without_a_restart() {
    let upstream = Upstream::start();
    let [old, new] = [SigningKey::new("RS256", "k-1"), SigningKey::new("RS256", "k-2")];
    let (set, server) = issuer(&[&old]);
    let gateway = believing(&upstream, &url(&server), "RS256", "min_refresh = \"10ms\"").start();
    assert_eq!(by(&old, "alice").send(&gateway).status, 201);
    assert_eq!(server.count(), 1);
    *set.lock().expect("keys") = key_set(&[&old, &new]);
    eventually("the new key is believed", || {
        by(&new, "alice").send(&gateway).is_replay().then_some(())
    });
    assert!(by(&old, "alice").send(&gateway).is_replay());
    // The old key is withdrawn: nothing asks for it, so it is the regular look that finds out.
    assert_eq!((server.count(), upstream.count()), (2, 1));
}

#[test]
fn keys_at_a_url_are_read_again_regularly() {
    let upstream = Upstream::start();
    let [old, new] = [SigningKey::new("EdDSA", "k-1"), SigningKey::new("EdDSA", "k-2")];
    let (set, server) = issuer(&[&old]);
    let times = "refresh = \"100ms\", min_refresh = \"100ms\"";
    let gateway = believing(&upstream, &url(&server), "EdDSA", times).start();
    assert_eq!(by(&old, "alice").send(&gateway).status, 201);
    *set.lock().expect("keys") = key_set(&[&new]);
    eventually("the old key is no longer believed", || {
        (by(&old, "alice").send(&gateway).status == 401).then_some(())
    });
    assert!(by(&new, "alice").send(&gateway).is_replay());
}

/// Forged tokens name keys at will: the issuer is not asked for each.
#[test]
fn tokens_with_unknown_keys_cause_one_look_per_pause() {
    let (upstream, key) = (Upstream::start(), SigningKey::new("EdDSA", "k-1"));
    let (_set, server) = issuer(&[&key]);
    let gateway =
        believing(&upstream, &url(&server), "EdDSA", "refresh = \"1h\", min_refresh = \"1h\"")
            .start();
    at_once(20, |number| {
        let forged = SigningKey::new("EdDSA", &format!("made-up-{number}"));
        assert_refused(&by(&forged, "alice"), &gateway, "a key that is not known");
    });
    assert_eq!((server.count(), upstream.count()), (1, 0));
    assert_eq!(by(&key, "alice").send(&gateway).status, 201);
}

/// The issuer is away: the keys that are known go on, and when it is back newer ones are found.
#[test]
fn the_last_good_keys_are_kept_while_the_url_is_away() {
    let upstream = Upstream::start();
    let [old, new] = [SigningKey::new("EdDSA", "k-1"), SigningKey::new("EdDSA", "k-2")];
    let (_set, server) = issuer(&[&old]);
    let address = server.address();
    let times = "refresh = \"100ms\", min_refresh = \"100ms\"";
    let gateway = believing(&upstream, &url(&server), "EdDSA", times).start();
    drop(server);
    eventually("the log says so", || {
        gateway.log().contains("keys of tokens cannot be read").then_some(())
    });
    assert_eq!(by(&old, "alice").send(&gateway).status, 201);
    assert_refused(&by(&new, "alice"), &gateway, "a key that is not known");
    assert_eq!(gateway.ask("/ready").status, 200);
    // What is no key set does not count, either.
    let broken = serving("<html>", address);
    eventually("it was asked", || (broken.count() > 1).then_some(()));
    assert!(by(&old, "alice").send(&gateway).is_replay());
    drop(broken);
    let _server = serving(&key_set(&[&old, &new]), address);
    eventually("the new key is known", || {
        by(&new, "alice").send(&gateway).is_replay().then_some(())
    });
}

/// The gateway starts without its issuer, says that it is not ready, and refuses no token for good.
#[test]
fn a_url_that_is_away_at_the_start_is_waited_for() {
    let (upstream, key) = (Upstream::start(), SigningKey::new("EdDSA", "k-1"));
    let address = Upstream::absent(39);
    let keys = format!("http://{address}/jwks.json");
    let gateway = believing(&upstream, &keys, "EdDSA", "min_refresh = \"100ms\"").start_unready();
    let unready = gateway.ask("/ready");
    assert_eq!(unready.status, 503);
    assert!(unready.text().contains("keys of tokens"), "{}", unready.text());
    let answer = by(&key, "alice").send(&gateway);
    answer.assert_problem(503, "token_keys_unavailable", true);
    assert_eq!(answer.retry_after(), Some(1));
    assert_eq!(upstream.count(), 0);
    assert_eq!(Call::new("GET", "/").send(&gateway).status, 201);
    let _server = serving(&key_set(&[&key]), address);
    eventually("it is ready", || (gateway.ask("/ready").status == 200).then_some(()));
    assert_eq!(by(&key, "alice").send(&gateway).status, 201);
}

/// Nothing has been opened to clients by then.
#[test]
fn a_file_without_keys_is_refused_at_the_start() {
    let upstream = Upstream::start();
    let (home, path) = file("");
    let missing = home.path().join("missing");
    let shown = path.display().to_string();
    let secret = SigningKey::new("RS256", "k-1").pem();
    for (text, keys, algorithm, parts) in [
        ("", missing.display().to_string(), "RS256", ["missing: No such file", "`keys` of [jwt]"]),
        ("", shown.clone(), "RS256", ["there is nothing in it", "JSON Web Key Set"]),
        ("<html>", shown.clone(), "RS256", ["neither PEM nor", "HS256 only"]),
        (&secret, shown.clone(), "HS256", ["it has a public key", "algorithms of the key"]),
        (&secret, shown.clone(), "ES256", ["no key for ES256", "algorithms of its keys"]),
        ("too short", shown, "HS256", ["9 bytes", "openssl rand"]),
    ] {
        write(&path, text);
        let ended = believing(&upstream, &keys, algorithm, "").refused();
        ended.assert_failed(1, &parts);
    }
}

/// Keys are taken over by a reload, or it is refused.
#[test]
fn a_reload_changes_the_keys_or_nothing() {
    let upstream = Upstream::start();
    let [old, new] = [SigningKey::new("EdDSA", "k-1"), SigningKey::new("EdDSA", "k-2")];
    let (_home, path) = file(&old.pem());
    let gateway = believing(&upstream, &path.display().to_string(), "EdDSA", "").start();
    assert_eq!(by(&old, "alice").send(&gateway).status, 201);
    let text = gateway.setup().text();
    let with_keys = |keys: &str| text.replace(&path.display().to_string(), keys);
    let away = format!("http://{}/jwks.json", Upstream::absent(40));
    gateway.setup().write(&with_keys(&away));
    gateway.signal(Signal::HUP);
    eventually("it is refused", || gateway.log().contains("not reloaded").then_some(()));
    assert!(by(&old, "alice").send(&gateway).is_replay());
    let (_set, server) = issuer(&[&new]);
    gateway.setup().write(&with_keys(&url(&server)));
    gateway.signal(Signal::HUP);
    eventually("the new key is believed", || {
        by(&new, "alice").send(&gateway).is_replay().then_some(())
    });
    assert_refused(&by(&old, "alice"), &gateway, "a key that is not known");
}

/// The operator of a gateway that reads unverified claims is warned at the start.
#[test]
fn the_log_names_the_routes_whose_tokens_are_not_verified() {
    let upstream = Upstream::start();
    let trusted = "scope = [\"jwt:sub\"]\njwt_unverified = \"behind-a-verifier\"";
    let gateway = Setup::before(&upstream)
        .memory()
        .route("POST /open", "scope = [\"jwt:sub\"]")
        .route("POST /behind", trusted)
        .start();
    let line = eventually("a line in the log", || {
        let log = gateway.log();
        log.lines().find(|line| line.contains("tokens are not verified")).map(str::to_owned)
    });
    assert!(line.contains("WARN") && line.contains("POST /open"), "{line}");
    assert!(!line.contains("/behind"), "{line}");
}
