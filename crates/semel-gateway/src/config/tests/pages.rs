//! What is written for people and editors, compared with what was committed.
//!
//! After a change: `cargo test -p semel-gateway --lib config -- --ignored write_snapshots`

use std::fs;
use std::path::Path;

use semel_http::json::canonical;

use super::{load, load_with};
use crate::config::settings::{self, Section};
use crate::config::{Flags, reference, schema};

const SAMPLE: &str = include_str!("../../../../../examples/semel.toml");

const DESCRIBED: &str = r#"upstream = "http://127.0.0.1:3000"
log = "warn"
limits.max_waiters = 5

[policy]
profile = "ietf"
preset = "api"
key_from = ["header:idempotency-key", "header:paypal-request-id", "json:/idempotency_key"]
lease = "20s"

[[route]]
match = "POST /v1/charges"
preset = "payments"
lease = "10s"

[[route]]
match = "* /files/{*rest}"
profile = "stripe"
mode = "shadow"
"#;

fn described() -> String {
    let env = [("SEMEL_POLICY_TTL", "36h"), ("SEMEL_LOG_FORMAT", "json")];
    let flags = Flags { listen: Some("0.0.0.0:80".to_owned()), ..Flags::default() };
    load_with(DESCRIBED, &env, &flags).unwrap().describe()
}

/// A path from `config`, what was committed there, and what belongs there.
type Page = (&'static str, &'static str, fn() -> String);

const PAGES: [Page; 4] = [
    ("snapshots/describe.txt", include_str!("../snapshots/describe.txt"), described),
    ("snapshots/schema.json", include_str!("../snapshots/schema.json"), schema),
    ("snapshots/faults.txt", include_str!("../snapshots/faults.txt"), super::faults::rendered),
    (
        "../../../../docs/reference/configuration.md",
        include_str!("../../../../../docs/reference/configuration.md"),
        reference,
    ),
];

#[test]
fn pages_are_as_committed() {
    for (page, committed, write) in PAGES {
        assert!(
            write() == committed,
            "{page} is out of date; the head of this file says what to do"
        );
    }
}

#[test]
#[ignore = "it writes the committed pages instead of testing them; run it after a change of the \
            settings: cargo test -p semel-gateway --lib config -- --ignored write_snapshots"]
fn write_snapshots() {
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config");
    for (page, _, write) in PAGES {
        fs::write(config.join(page), write()).unwrap();
    }
}

#[test]
fn the_schema_is_json() {
    assert!(canonical(schema().as_bytes(), &[]).is_ok());
}

#[test]
fn the_sample_works_as_it_stands() {
    let config = load(SAMPLE).unwrap_or_else(|faults| panic!("{faults}"));
    assert_eq!(config.upstream.to_string(), "http://127.0.0.1:3000");
    assert_eq!(config.routes.all()[1].name(), "POST /v1/charges");
}

/// The sample with every setting taken out of its comment.
fn uncommented() -> String {
    let lines = SAMPLE.lines().map(|line| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with([' ', '#']) => rest,
        _ => line,
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_sample_has_every_setting_with_its_default() {
    let text = uncommented().replace("upstream = \"http:", "upstream = \"https:");
    load(&text).unwrap_or_else(|faults| panic!("{faults}"));
    let mut section = Section::Top;
    let mut seen = Vec::new();
    for line in text.lines() {
        let tables = Section::TABLES.into_iter();
        section = tables.into_iter().find(|one| one.heading() == line).unwrap_or(section);
        let Some((name, value)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) else {
            continue;
        };
        let setting = settings::find(section, name).unwrap_or_else(|| panic!("{line}"));
        if let Some(default) = setting.default.filter(|_| section != Section::Route) {
            assert_eq!(value, default, "{line}");
        }
        seen.push((section, name));
    }
    for setting in settings::all() {
        assert!(seen.contains(&(setting.section, setting.name)), "no {}", setting.name);
    }
}
