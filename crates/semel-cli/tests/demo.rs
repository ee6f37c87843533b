//! The demo does what the README says, from the outside.

use std::process::{Command, Output};

fn semel(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_semel")).args(arguments).output().expect("the program runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn the_demo_plays_twice_in_the_same_directory() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("demo");
    for _ in 0..2 {
        let output = semel(&["demo", "--directory", path.to_str().expect("text")]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{out}{}", text(&output.stderr));
        assert!(out.contains("4 executed, 51 replayed, 1 refused"), "{out}");
        assert!(out.contains("executed, fence 2"), "the abandoned charge was taken over: {out}");
        assert!(!out.contains('\x1b'), "no colour where nobody sees it: {out}");
    }
    // Four orders, each charged once, in each of two runs.
    let ledger = std::fs::read_to_string(path.join("ledger.txt")).expect("a ledger");
    assert_eq!(ledger.lines().count(), 8, "{ledger}");
}

#[test]
fn a_directory_of_someone_else_is_refused_with_a_cure() {
    let directory = tempfile::tempdir().expect("a directory");
    let store = directory.path().join("store");
    std::fs::create_dir(&store).expect("a directory");
    std::fs::write(store.join("thesis.txt"), "draft").expect("a file");
    let output = semel(&["demo", "--directory", directory.path().to_str().expect("text")]);
    assert_eq!(output.status.code(), Some(1));
    let said = text(&output.stderr);
    assert!(said.contains("is not a Semel store") && said.contains("thesis.txt"), "{said}");
}

#[test]
fn wrong_usage_exits_with_2_and_help_with_0() {
    assert_eq!(semel(&["demo", "--colour"]).status.code(), Some(2));
    assert_eq!(semel(&[]).status.code(), Some(2));
    let help = semel(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("demo"));
    assert!(text(&semel(&["completions", "bash"]).stdout).contains("_semel"));
}
