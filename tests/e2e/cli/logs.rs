use serde_json::Value;

use crate::support::{Upstream, before, post};

/// What a gateway logs while it serves one request and stops.
fn said(variables: &[(&str, &str)]) -> String {
    let upstream = Upstream::start();
    let setup = before(&upstream).arguments(&["--store", "memory:"]).variables(variables);
    let gateway = setup.start_unready();
    assert_eq!(post("/", Some("the-key")).send(&gateway).status, 201);
    let (status, said) = gateway.terminate();
    assert_eq!(status.code(), Some(0));
    said
}

#[test]
fn a_request_has_a_line_without_its_key_or_colours() {
    let said = said(&[]);
    let line = said.lines().find(|line| line.contains("attempt")).expect("a line");
    assert!(line.contains("INFO") && line.contains("decision=\"executed\""), "{line}");
    assert!(!said.contains("the-key") && !said.contains('\x1b'), "{said}");
}

#[test]
fn json_lines_are_json() {
    let said = said(&[("SEMEL_LOG_FORMAT", "json")]);
    let lines: Vec<Value> = said
        .lines()
        .filter(|line| !line.starts_with("semel"))
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let attempt = lines.iter().find(|line| line["message"] == "attempt").expect("a line");
    assert_eq!((&attempt["decision"], &attempt["level"]), (&"executed".into(), &"INFO".into()));
}

#[test]
fn the_level_is_applied() {
    let said = said(&[("SEMEL_LOG", "warn")]);
    assert!(!said.contains("INFO") && said.contains("kept in memory"), "{said}");
}
