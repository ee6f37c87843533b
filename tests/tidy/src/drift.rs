//! What pages say about the code is still so.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::files::{files, read, root};

/// The names of the files or directories in a directory, without their endings.
fn names(directory: &str) -> BTreeSet<String> {
    let entries = std::fs::read_dir(root().join(directory)).expect("a directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned())).collect()
}

/// Every page in a directory is linked from the page that lists them.
fn assert_listed(directory: &str, index: &str, link: impl Fn(&str) -> String) {
    let text = read(&root().join(index));
    let pages = names(directory);
    assert!(!pages.is_empty(), "{directory} is empty");
    let is_missing = |page: &&String| *page != "README" && !text.contains(&link(page));
    let missing: Vec<&String> = pages.iter().filter(is_missing).collect();
    assert!(missing.is_empty(), "{index} does not link {missing:?} of {directory}");
}

#[test]
fn every_problem_has_a_row() {
    assert_listed("docs/problems", "docs/problems/README.md", |page| format!("]({page}.md)"));
}

#[test]
fn every_decision_is_listed() {
    for (index, path) in [("docs/README.md", "decisions"), ("ARCHITECTURE.md", "docs/decisions")] {
        assert_listed("docs/decisions", index, |page| format!("({path}/{page}.md)"));
    }
}

#[test]
fn every_guide_and_reference_is_listed() {
    for directory in ["guides", "reference", "start", "internals"] {
        let pages = format!("docs/{directory}");
        assert_listed(&pages, "docs/README.md", |page| format!("({directory}/{page}.md)"));
    }
}

#[test]
fn every_crate_is_on_the_map() {
    for directory in ["crates", "proof"] {
        assert_listed(directory, "ARCHITECTURE.md", |name| format!("| `{name}` |"));
    }
}

/// Where paths of this project begin.
const ROOMS: [&str; 8] =
    ["crates/", "proof/", "tests/e2e/", "tests/tidy/", "docs/", "examples/", "bench/", "fuzz/"];

#[test]
fn paths_in_pages_and_comments_exist() {
    let mut missing = Vec::new();
    // The change log speaks of the past.
    let is_present = |file: &PathBuf| !file.ends_with("CHANGELOG.md");
    for file in files(&[".md", ".rs", ".toml"]).into_iter().filter(is_present) {
        let text = read(&file);
        let paths = text.lines().flat_map(|line| line.split('`').skip(1).step_by(2));
        let absent = paths.filter_map(path_of).filter(|path| !root().join(path).exists());
        missing.extend(absent.map(|path| (file.clone(), path)));
    }
    assert!(missing.is_empty(), "these paths do not exist: {missing:#?}");
}

/// Made by programs, and not kept.
const GENERATED: &str = "fuzz/artifacts/";

/// The path that a quotation is, if it is one of this project, without patterns and placeholders (`NAME`).
fn path_of(quoted: &str) -> Option<PathBuf> {
    let is_ours = ROOMS.iter().any(|room| quoted.starts_with(room)) && quoted != GENERATED;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    let is_placeholder = |name: &str| {
        let word = name.split(['-', '.']).next().unwrap_or_default();
        word.len() > 3 && word != "README" && word.chars().all(|c| c.is_ascii_uppercase())
    };
    let is_path = is_ours && quoted.chars().all(is_plain) && !quoted.split('/').any(is_placeholder);
    is_path.then(|| Path::new(quoted).to_owned())
}

#[test]
fn commands_and_patterns_are_no_paths() {
    assert_eq!(path_of("docs/words.md"), Some(PathBuf::from("docs/words.md")));
    for other in ["docs/*.md", "crates/{a,b}", "semel check", "/docs/words.md", "docs/NAME.md"] {
        assert_eq!(path_of(other), None, "{other}");
    }
}
