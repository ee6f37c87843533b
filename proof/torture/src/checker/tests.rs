//! Hand-written histories: for each rule one that breaks it, and one that comes close and does not.

mod answers;
mod executions;
mod exits;
mod final_answers;
mod full;
mod story;
mod takeover;
mod trials;

use std::collections::BTreeSet;

use super::{Rule, check_lines};
use story::Story;

#[test]
fn a_history_must_begin_with_its_head() {
    let error =
        check_lines(&b"{\"t\":1,\"e\":\"phase\",\"name\":\"faults\"}\n"[..]).expect_err("no head");
    assert!(error.to_string().contains("the first line"), "{error}");
    check_lines(&b""[..]).expect_err("nothing");
    let error = check_lines(&b"{\"t\":1}\n"[..]).expect_err("no event");
    assert!(error.to_string().contains("line 1"), "{error}");
}

#[test]
fn an_answer_to_nothing_is_no_history() {
    let mut story = Story::new();
    story.info(5, 99, "hung-up");
    let error = check_lines(story.text().as_bytes()).expect_err("the request was never sent");
    assert!(format!("{error:#}").contains("99"), "{error:#}");
}

#[test]
fn a_violation_names_rule_scope_key_and_lines() {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.call(4, 2, 1).begin(5, "n2", 1, 2).end(6, "n2", 201);
    let report = story.report();
    let shown = report.violations[0].to_string();
    assert!(shown.starts_with("hold-executed-again: scope 0, /hold, key k: "), "{shown}");
    assert!(shown.ends_with("(lines [3, 7])"), "{shown}");
    let result = report.to_json().to_string();
    assert!(
        result.contains(r#""broken":["I2 settled-is-final","hold-executed-again"]"#),
        "{result}"
    );
}

#[test]
fn names_of_rules_are_their_own() {
    let names: BTreeSet<&str> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
    assert_eq!(names.len(), Rule::ALL.len());
    for id in 1..=10 {
        assert!(names.iter().any(|name| name.starts_with(&format!("I{id} "))), "I{id}");
    }
}

#[test]
fn a_quiet_run_is_counted_and_breaks_nothing() {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.call(4, 2, 1).ok_with(5, 2, "n1", |answer| answer.replayed = true);
    let report = story.report();
    assert_eq!((report.requests, report.keys, report.executions, report.outcomes), (2, 1, 1, 2));
    story.breaks(&[]);
}

#[test]
fn requests_that_were_sent_under_faults_count_as_answered_if_they_were() {
    let mut story = Story::new();
    story.call(0, 1, 0).begin(1, "n1", 0, 1).end(2, "n1", 201).ok(3, 1, "n1");
    story.phase(10, "faults").call(11, 2, 0).ok(12, 2, "n1");
    story.call(13, 3, 0).fail(14, 3, 503, "idempotency_store_unavailable");
    story.call(15, 4, 0).info(16, 4, "hung-up");
    story.call(17, 5, 0).call(18, 6, 0).phase(20, "calm").ok(21, 5, "n1");
    story.read(22, 7, 0).ok(23, 7, "n1");
    let report = story.report();
    assert_eq!((report.requests_under_faults, report.answered_under_faults), (5, 3));
}
