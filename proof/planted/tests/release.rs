//! Bugs can be planted into no release.

use std::path::Path;
use std::process::Command;

fn cargo(arguments: &[&str]) -> (bool, String) {
    cargo_with(arguments, &[])
}

fn cargo_with(arguments: &[&str], environment: &[(&str, &str)]) -> (bool, String) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml");
    // A directory of its own: the one that cargo builds tests in may be locked.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("planted");
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .arg("--manifest-path")
        .arg(manifest)
        .env("CARGO_TARGET_DIR", target)
        .envs(environment.iter().copied())
        .output()
        .expect("cargo starts");
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn a_release_refuses_the_feature_and_says_why() {
    let check = ["check", "--quiet", "--locked", "--release", "-p", "semel-planted"];
    let (is_built, said) = cargo(&[&check[..], &["--features", "planted-bugs"]].concat());
    assert!(!is_built, "a release was built with planted bugs");
    assert!(said.contains("cannot be part of a release build"), "{said}");
    let (is_built, said) = cargo(&check);
    assert!(is_built, "{said}");
}

/// Debug assertions are a setting of a profile, and so no guard by themselves.
#[test]
fn a_release_with_debug_assertions_refuses_it_too() {
    let check = ["check", "--quiet", "--locked", "--release", "-p", "semel-planted"];
    let with_bugs = [&check[..], &["--features", "planted-bugs"]].concat();
    let assertions = [("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")];
    let (is_built, said) = cargo_with(&with_bugs, &assertions);
    assert!(!is_built, "a release with debug assertions was built with planted bugs");
    assert!(said.contains("cannot be part of a release build"), "{said}");
    let (is_built, said) = cargo_with(&check, &assertions);
    assert!(is_built, "{said}");
}

#[test]
fn the_program_has_the_feature_only_if_asked() {
    let tree = ["tree", "--quiet", "--locked", "-p", "semel-cli", "-e", "no-dev", "-f", "{p} {f}"];
    let has = |said: &str| {
        let mut lines = said.lines().filter(|line| line.contains("semel-core "));
        let first = lines.next().expect("the program depends on it");
        first.contains(" planted-bugs")
    };
    let (is_known, said) = cargo(&tree);
    assert!(is_known && !has(&said), "it is on by default: {said}");
    let (is_known, said) = cargo(&[&tree[..], &["--features", "planted-bugs"]].concat());
    assert!(is_known && has(&said), "it cannot be asked for: {said}");
}
