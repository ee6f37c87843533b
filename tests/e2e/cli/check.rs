use std::fs;
use std::path::Path;

use crate::support::{Ended, run, semel};

const BAD: &str = "\
upstream = \"http://127.0.0.1:3000\"
lisen = \"127.0.0.1:1\"

[policy]
lease = \"soon\"
";

fn sample() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/semel.toml");
    fs::read_to_string(path).expect("the sample")
}

#[test]
fn the_sample_is_valid_and_effective_values_are_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("other.toml"), sample()).expect("a file");
    let mut command = semel(directory.path(), &["check", "--config", "other.toml"]);
    command.args(["--listen", "127.0.0.1:9"]).env("SEMEL_POLICY_LEASE", "7s");
    let Ended { code, out, err } = Ended::of(&mut command);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!(err, "semel: the configuration is other.toml\n");
    let row = |name: &str, value: &str, origin: &str| {
        let fits = |line: &str| {
            line.split_whitespace().next() == Some(name)
                && line.contains(value)
                && line.ends_with(origin)
        };
        assert!(out.lines().any(fits), "{name} {value} {origin} in\n{out}");
    };
    row("listen", "127.0.0.1:9", "--listen");
    row("lease", "7s", "SEMEL_POLICY_LEASE");
    row("lease", "7s", "inherited from [policy], SEMEL_POLICY_LEASE");
    row("on_abandoned", "hold", "preset payments");
    assert!(out.contains("\nroute POST /v1/charges\n"), "{out}");
}

/// A reader of `on_unknown = "release"` or of a short lease need not know what follows from it.
#[test]
fn routes_that_may_execute_again_are_marked() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = "\
upstream = \"http://127.0.0.1:3000\"
[[route]]
match = \"POST /charges\"
preset = \"payments\"
[[route]]
match = \"POST /mails\"
preset = \"notifications\"
lease = \"500ms\"
[[route]]
match = \"POST /watched\"
mode = \"shadow\"
lease = \"500ms\"
";
    fs::write(directory.path().join("semel.toml"), file).expect("a file");
    let Ended { code, out, err } = Ended::of(&mut semel(directory.path(), &["check"]));
    assert_eq!(code, Some(0), "{err}");
    let note =
        "note: an unknown outcome is released here, so a retry may execute the work a second time";
    let marked = |route: &str, note: &str| {
        let (_, rest) = out.split_once(&format!("\nroute {route}")).expect(route);
        let route = rest.split_once("\nroute ").map_or(rest, |(route, _)| route);
        route.contains(note)
    };
    assert!(marked("* (all", note) && marked("POST /mails", note), "{out}");
    assert!(!marked("POST /charges", note) && !marked("POST /watched", note), "{out}");
    let short = "note: a verb of the store may take 2s, and the lease is shorter";
    let routes = ["* (all", "POST /mails", "POST /charges", "POST /watched"];
    assert_eq!(routes.map(|route| marked(route, short)), [false, true, false, false], "{out}");
    assert!(out.contains("unknown_statuses          [\"500\", \"502\", \"504\"]"), "{out}");
}

#[test]
fn the_file_of_the_directory_is_read_unless_another_is_named() {
    let directory = tempfile::tempdir().expect("a directory");
    let check = |arguments: &[&str]| {
        let ended = Ended::of(&mut semel(directory.path(), arguments));
        (ended.code, ended.err)
    };
    let (code, err) = check(&["check", "--upstream", "http://127.0.0.1:1"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("no configuration file"), "{err}");
    fs::write(directory.path().join("semel.toml"), BAD).expect("a file");
    fs::write(directory.path().join("good.toml"), sample()).expect("a file");
    let (code, err) = check(&["check"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.starts_with("semel: the configuration is semel.toml\n"), "{err}");
    let (code, err) = check(&["check", "--config", "good.toml"]);
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn all_faults_are_reported_at_once_and_nothing_is_opened() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("bad.toml"), BAD).expect("a file");
    for command in ["check", "gateway"] {
        let arguments = [command, "--config", "bad.toml", "--store", "redis:x"];
        let Ended { code, out, err } = Ended::of(&mut semel(directory.path(), &arguments));
        assert_eq!(code, Some(2), "{err}");
        assert_eq!(out, "");
        for part in
            ["bad.toml:2:1: `lisen`", "cure: did you mean `listen`?", "bad.toml:5:", "--store"]
        {
            assert!(err.contains(part), "{part} in\n{err}");
        }
    }
    let files = fs::read_dir(directory.path()).expect("a directory").count();
    assert_eq!(files, 1, "only the configuration is there");
}

/// A charge must not be forgotten because a process ends.
#[test]
fn payments_are_not_kept_in_memory() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = "upstream = \"http://127.0.0.1:3000\"\n[[route]]\nmatch = \"POST /a\"\npreset = \"payments\"\n";
    fs::write(directory.path().join("semel.toml"), file).expect("a file");
    for command in ["check", "gateway"] {
        let arguments = [command, "--store", "memory:"];
        let Ended { code, err, .. } = Ended::of(&mut semel(directory.path(), &arguments));
        assert_eq!(code, Some(2), "{err}");
        for part in [
            "semel.toml:4:10: `preset` is \"payments\"",
            "(\"memory:\")",
            "cure: choose another store",
        ] {
            assert!(err.contains(part), "{part} in\n{err}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_read_exits_with_2() {
    for command in ["check", "gateway"] {
        let Ended { code, err, .. } = run(&[command, "--config", "missing.toml"]);
        assert_eq!(code, Some(2), "{err}");
        assert!(err.contains("missing.toml: cannot be read") && err.contains("cure:"), "{err}");
    }
}

#[test]
fn the_schema_is_json_and_needs_no_configuration() {
    let Ended { code, out, err } = run(&["check", "--schema"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let schema: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    assert!(schema["properties"]["upstream"].is_object());
}

/// Wherever it is written, and whether it is right or wrong.
#[test]
fn the_password_of_a_database_is_never_printed() {
    let directory = tempfile::tempdir().expect("a directory");
    for end in ["", "?sslmode=maybe", "?password=hunter3"] {
        let url = format!("postgres://shop:hunter2@db.internal/shop{end}");
        fs::write(directory.path().join("file.toml"), format!("store = \"{url}\""))
            .expect("a file");
        let arguments = ["check", "--upstream", "http://127.0.0.1:1"];
        let checks = [
            Ended::of(semel(directory.path(), &arguments).args(["--store", &url])),
            Ended::of(semel(directory.path(), &arguments).env("SEMEL_STORE", &url)),
            Ended::of(semel(directory.path(), &arguments).args(["--config", "file.toml"])),
        ];
        for Ended { out, err, .. } in checks {
            assert!(!out.contains("hunter") && !err.contains("hunter"), "{out}{err}");
            if cfg!(feature = "postgres") && end != "?sslmode=maybe" {
                assert!(out.contains("postgres://shop@db.internal:5432/shop"), "{out}{err}");
            } else {
                assert!(
                    err.contains("`store` is \"postgres://***\"") && err.contains("cure:"),
                    "{err}"
                );
            }
        }
    }
}
