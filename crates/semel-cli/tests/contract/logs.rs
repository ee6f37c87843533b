//! Logs: one line for each protected request, and no secrets. Trap 24.

use crate::support::{Call, Gateway, Reply, Setup, Upstream, eventually};

const KEY: &str = "canary-key-pelican";
const CREDENTIAL: &str = "Bearer canary-credential-ostrich";
const BODY: &str = "canary-body-flamingo";

/// Requests of many kinds, all with secrets; then the whole log, after a clean end.
fn log_of(format: &str) -> (String, String) {
    let upstream = Upstream::with(|seen| match seen.target.as_str() {
        "/closes" => Reply::Closes,
        _ => Reply::created(&format!(r#"{{"echo":"{BODY}"}}"#)),
    });
    let top = format!("log = \"debug\"\nlog_format = \"{format}\"");
    let gateway = Setup::before(&upstream).top(&top).route("POST /v1/charges", "").start();
    let charge = Call::charge(KEY).from(CREDENTIAL);
    let charge = charge.json(&format!(r#"{{"secret":"{BODY}"}}"#));
    charge.send(&gateway);
    charge.send(&gateway);
    charge.clone().json("{}").send(&gateway);
    charge.key(KEY).send(&gateway);
    Call::new("POST", "/closes").key(KEY).from(CREDENTIAL).send(&gateway);
    Call::new("POST", "/v1/charges").key(&format!("{KEY} {BODY}")).send(&gateway);
    Call::new("GET", &format!("/q?key={KEY}")).from(CREDENTIAL).send(&gateway);
    let metrics = gateway.ask("/metrics").text();
    (terminated(gateway), metrics)
}

fn terminated(gateway: Gateway) -> String {
    let (status, log) = gateway.terminate();
    assert!(status.success(), "{status}");
    log
}

fn assert_no_secrets(text: &str) {
    for secret in ["canary", "pelican", "ostrich", "flamingo"] {
        let line = text.lines().find(|line| line.contains(secret));
        assert_eq!(line, None, "{secret} is told");
    }
}

#[test]
fn keys_and_credentials_are_in_no_log_and_no_metric() {
    for format in ["text", "json"] {
        let (log, metrics) = log_of(format);
        assert!(log.lines().count() > 5 && metrics.lines().count() > 20);
        assert_no_secrets(&log);
        assert_no_secrets(&metrics);
    }
}

/// The lines about attempts, as JSON.
fn attempts(log: &str) -> Vec<serde_json::Value> {
    let lines = log.lines().filter(|line| !line.starts_with("semel"));
    let parse = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line}"))
    };
    let all: Vec<serde_json::Value> = lines.map(parse).collect();
    all.into_iter().filter(|line| member(line, "message") == "attempt").collect()
}

/// A member of a line, or of its fields.
fn member(line: &serde_json::Value, name: &str) -> String {
    let value = line.get(name).or_else(|| line.get("fields")?.get(name));
    value.map(|value| value.as_str().map_or(value.to_string(), str::to_owned)).unwrap_or_default()
}

#[test]
fn every_protected_request_has_one_line_with_record_and_decision() {
    let (log, _) = log_of("json");
    let attempts = attempts(&log);
    let decisions: Vec<_> = attempts.iter().map(|line| member(line, "decision")).collect();
    let expected = ["executed", "replayed", "mismatch", "key_invalid", "released", "key_invalid"];
    assert_eq!(decisions, expected, "{log}");
    let statuses: Vec<_> = attempts.iter().map(|line| member(line, "status")).collect();
    assert_eq!(statuses, ["201", "201", "409", "400", "502", "400"]);
    let records: Vec<_> = attempts.iter().map(|line| member(line, "record")).collect();
    assert!(records[0].len() >= 8 && records[0].chars().all(|c| c.is_ascii_hexdigit()));
    assert_eq!((&records[0], &records[0]), (&records[1], &records[2]), "one record, one prefix");
    assert_ne!(records[0], records[4]);
    assert!(attempts.iter().all(|line| !member(line, "route").is_empty()));
}

/// A prefix only: the whole id could be looked up by whoever reads the log.
#[test]
fn a_record_is_named_by_a_prefix() {
    let (log, _) = log_of("json");
    let record = member(&attempts(&log)[0], "record");
    assert!(record.len() < 32, "{record}");
}

#[test]
fn text_lines_tell_the_same() {
    let (log, _) = log_of("text");
    let is_replay = |line: &&str| line.contains("decision=\"replayed\"");
    let replayed: Vec<_> = log.lines().filter(is_replay).collect();
    assert_eq!(replayed.len(), 1, "{log}");
    for part in ["INFO", "attempt", "record", "POST /v1/charges"] {
        assert!(replayed[0].contains(part), "{part}: {}", replayed[0]);
    }
    assert!(!log.contains('\u{1b}'), "colours in a pipe");
}

/// `log = "warn"`: only what somebody should look at.
#[test]
fn the_level_can_be_chosen() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).top("log = \"warn\"").start();
    Call::charge("k").send(&gateway);
    Call::charge("k").send(&gateway);
    let log = terminated(gateway);
    assert!(!log.contains("attempt") && !log.contains("INFO"), "{log}");
}

/// The value of a field in a line of text.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("{line}"));
    rest.split_once('"').unwrap_or_else(|| panic!("{line}")).0
}

/// A gateway that is killed leaves a trace of what was in progress: the record of a held key is in its log, with
/// the fence that the upstream was given.
#[test]
fn a_killed_gateway_leaves_a_trace_of_what_it_executed() {
    let (gate, upstream) = Upstream::first_gated();
    let policy = "lease = \"400ms\"\non_abandoned = \"hold\"";
    let gateway = Setup::before(&upstream).route("POST /v1/charges", policy).start();
    let first = Call::charge("k").begin(&gateway);
    gate.wait_for(1);
    // A line is written a few milliseconds after it was made.
    let log = eventually("the start is logged", || {
        Some(gateway.log()).filter(|log| log.contains("execution started"))
    });
    let gateway = gateway.kill().start();
    assert!(first.try_answer().is_err());
    eventually("the lease of the dead ends", || {
        let answer = Call::charge("k").send(&gateway);
        (answer.code().as_deref() == Some("outcome_unknown")).then_some(())
    });
    let later = terminated(gateway);
    let held = later.lines().find(|line| line.contains("decision=\"unknown\"")).expect("a line");
    let started = log.lines().find(|line| line.contains("execution started")).expect("a line");
    assert!(started.contains("INFO") && started.contains("fence=1"), "{started}");
    assert_eq!(field(started, "record"), field(held, "record"));
    assert_eq!(field(started, "route"), "POST /v1/charges");
    assert!(!log.contains("execution ended") && !log.contains("attempt"), "{log}");
    gate.open();
}

/// Also under the defaults, where the work of a killed gateway may be executed a second time.
#[test]
fn the_start_of_an_execution_is_logged_by_default() {
    let upstream = Upstream::start();
    let log_with = |top: &str| {
        let gateway = Setup::before(&upstream).top(top).start();
        Call::charge("k").send(&gateway);
        terminated(gateway)
    };
    assert!(log_with("").contains("execution started"));
    assert!(!log_with("log = \"warn\"").contains("execution started"));
}
