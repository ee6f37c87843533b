//! Logs: one line for each protected request, and no secrets. Trap 24.

use crate::support::{Call, Gateway, Reply, Setup, Upstream, eventually, now};

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
        assert_eq!(line, None, "{secret} is written");
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

/// But for what comes more than once a second and executes nothing: that is counted.
#[test]
fn every_protected_request_has_one_line_with_record_and_decision() {
    let (log, _) = log_of("json");
    let attempts = attempts(&log);
    let decisions: Vec<_> = attempts.iter().map(|line| member(line, "decision")).collect();
    let expected = ["executed", "replayed", "mismatch", "key_invalid", "released"];
    assert_eq!(decisions[..5], expected, "{log}");
    let statuses: Vec<_> = attempts.iter().map(|line| member(line, "status")).collect();
    assert_eq!(statuses[..5], ["201", "201", "409", "400", "502"]);
    let left_out = |line: &str| line.contains("key_invalid") && line.contains(r#""left_out":1"#);
    assert!(attempts.len() == 6 || log.lines().any(left_out), "the sixth is lost: {log}");
    let records: Vec<_> = attempts.iter().map(|line| member(line, "record")).collect();
    assert!(records[0].len() >= 8 && records[0].chars().all(|c| c.is_ascii_hexdigit()));
    assert_eq!((&records[0], &records[0]), (&records[1], &records[2]), "one record, one prefix");
    assert_ne!(records[0], records[4]);
    assert!(attempts.iter().all(|line| !member(line, "route").is_empty()));
}

/// A prefix only: with the whole id a reader of the log could look up the record.
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

/// `log = "warn"`: only lines that need attention.
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
fn a_killed_gateway_leaves_log_lines_of_its_executions() {
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

/// How many lines a storm has, and how many requests they tell of: `line` is what each has in it, `rest` what the
/// number alone has.
fn written(log: &str, line: &str, rest: &str) -> (usize, usize) {
    let of = |part: &'static str| move |line: &&str| line.contains(part);
    let left_out = |line: &str| {
        let rest = line.split_once("left_out=").map(|(_, rest)| rest);
        rest.and_then(|rest| rest.split(' ').next()?.trim().parse().ok()).unwrap_or(0_usize)
    };
    let is_rest = of("log lines were left out");
    let lines: Vec<_> = log.lines().filter(|it| it.contains(line) && !is_rest(it)).collect();
    let rests: Vec<_> = log.lines().filter(|it| it.contains(rest) && is_rest(it)).collect();
    let sum = lines.iter().chain(&rests).map(|line| left_out(line)).sum::<usize>();
    (lines.len() + rests.len(), lines.len() + sum)
}

/// An attack writes a line per second and kind, not a line per request; also its last number is written.
#[test]
fn a_storm_of_requests_writes_few_lines_that_add_up() {
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream)
        .unsynced()
        .policy("new_keys_per_scope = \"1/h\"")
        .route("POST /strict", "on_missing_scope = \"reject\"")
        .route("POST /small", "max_request_body = \"1B\"")
        .start();
    let first = Call::charge("first").from("ann");
    assert_eq!(first.send(&gateway).status, 201);
    let storms = [
        ("key_missing", Call::new("POST", "/").json("{}"), 400),
        ("key_invalid", Call::charge("two words"), 400),
        ("scope_missing", Call::new("POST", "/strict").key("k"), 401),
        ("body_too_large", Call::new("POST", "/small").key("k").json("{}"), 413),
        ("mismatch", first.clone().json("{}"), 409),
        ("too_many_keys", Call::charge("new").from("ann"), 429),
        ("replayed", first, 201),
        ("refused", Call::new("POST", "/a%2fb").key("k"), 400),
    ];
    let (began, each) = (now(), 50);
    for (decision, call, status) in &storms {
        for _ in 0..each {
            assert_eq!(call.send(&gateway).status, *status, "{decision}");
        }
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("a short test");
    let log = terminated(gateway);
    for (decision, ..) in storms {
        let of = format!("decision=\"{decision}\"");
        let (lines, requests) = written(&log, &of, &of);
        assert_eq!(requests, each, "{decision} in\n{log}");
        assert!(lines <= seconds + 3, "{decision}: {lines} lines in {seconds} s\n{log}");
    }
    // The engine says something about those as well.
    let (lines, requests) = written(&log, " refused ", "of=\"refused: too many keys\"");
    assert!(lines <= seconds + 3 && requests == each, "{lines}, {requests} in\n{log}");
}

/// So does an outage of the upstream: nothing was sent, so no execution has started, and no line has to tell of one.
#[test]
fn an_outage_of_the_upstream_writes_few_lines_that_add_up() {
    let gateway = Setup::before_address(Upstream::absent(14)).unsynced().start();
    let (began, each) = (now(), 100);
    for number in 0..each {
        assert_eq!(Call::charge(&format!("k-{number}")).send(&gateway).status, 502);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("a short test");
    let log = terminated(gateway);
    let what = "the upstream cannot be reached";
    let (lines, requests) = written(&log, what, &format!("of=\"{what}\""));
    assert!(lines <= seconds + 3 && requests == each, "{lines}, {requests} in\n{log}");
    let released = "decision=\"released\"";
    let (lines, requests) = written(&log, released, released);
    assert!(lines <= seconds + 3 && requests == each, "{lines}, {requests} in\n{log}");
    assert!(!log.contains("execution started"), "{log}");
}

/// The same of requests that find no connection to the upstream free. What has one is logged before it is sent.
#[test]
fn a_lack_of_connections_writes_few_lines_that_add_up() {
    let (gate, upstream) = Upstream::first_gated();
    let limits = "max_upstream_connections = 1\nconnect_timeout = \"20ms\"";
    let gateway = Setup::before(&upstream).unsynced().limits(limits).start();
    let running = Call::charge("running").begin(&gateway);
    gate.wait_for(1);
    let (began, each) = (now(), 50);
    for number in 0..each {
        assert_eq!(Call::charge(&format!("k-{number}")).send(&gateway).status, 503);
    }
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("a short test");
    gate.open();
    assert_eq!(running.answer().status, 201);
    let log = terminated(gateway);
    let released = "decision=\"released\"";
    let (lines, requests) = written(&log, released, released);
    assert!(lines <= seconds + 3 && requests == each, "{lines}, {requests} in\n{log}");
    assert_eq!(log.matches("execution started").count(), 1, "{log}");
}
