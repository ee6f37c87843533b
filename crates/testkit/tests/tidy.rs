//! What the house expects of its own files and clippy cannot say.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the root")
}

/// Every file of the project that ends with one of `endings`.
fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![root()];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).expect("a directory") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("a name");
            if path.is_dir() {
                if name != "target" && !name.starts_with('.') && !name.starts_with("semel-d") {
                    open.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 5, "found only {found:?}");
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readme_is_short_and_names_the_two_commands() {
    let text = read(&root().join("README.md"));
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
    assert!(text.contains("cargo run --release -- demo"));
    assert!(text.contains("./test"));
}

#[test]
fn no_source_file_is_too_long_to_read() {
    for path in files(&[".rs"]) {
        let lines = read(&path).lines().count();
        assert!(lines <= 500, "{} has {lines} lines: split it by responsibility", path.display());
    }
}

#[test]
fn nothing_is_left_for_later_in_the_code() {
    // Written in two halves, so that this file does not find itself.
    let marks =
        [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];
    for path in files(&[".rs", ".toml", ".sql", ".lua"]) {
        let text = read(&path);
        for mark in marks {
            assert!(!text.contains(mark), "{} contains {mark}", path.display());
        }
    }
}

/// The one claim that may be made only of the same-transaction mode.
#[test]
fn nothing_is_claimed_that_cannot_be_kept() {
    let claim = concat!("exactly", " once");
    for path in files(&[".rs", ".md"]) {
        let text = read(&path).to_lowercase().replace('-', " ");
        for line in text.lines().filter(|line| line.contains(claim)) {
            let allowed = line.contains("same transaction") || line.contains("not ");
            assert!(allowed, "{}: {line}", path.display());
        }
    }
}

#[test]
fn links_between_documents_lead_somewhere() {
    for path in files(&[".md"]) {
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let there = path.parent().expect("a directory").join(target);
            assert!(there.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}

/// Each guide, and the example whose code it shows.
const SHOWN: [(&str, &str); 2] = [
    ("docs/guides/natural-idempotency.md", "examples/patterns"),
    ("docs/guides/same-transaction.md", "examples/transfers"),
];

#[test]
fn guides_show_tested_code() {
    let sources = files(&[".rs", ".sql"]);
    for (guide, example) in SHOWN {
        let example = root().join(example);
        let sources = sources.iter().filter(|path| path.starts_with(&example));
        let sources: Vec<String> = sources.map(|path| read(path)).collect();
        let guide = read(&root().join(guide));
        let blocks: Vec<&str> = ["```rust\n", "```sql\n"]
            .iter()
            .flat_map(|fence| guide.split(fence).skip(1))
            .filter_map(|rest| rest.split("\n```").next())
            .collect();
        assert!(blocks.len() > 4, "{blocks:?}");
        for block in blocks {
            assert!(sources.iter().any(|source| source.contains(block)), "not tested: {block}");
        }
    }
}

#[test]
fn every_crate_shares_the_lints() {
    for path in files(&["Cargo.toml"]) {
        let text = read(&path);
        assert!(
            text.contains("[workspace]") || text.contains("[lints]\nworkspace = true"),
            "{} has lints of its own",
            path.display()
        );
    }
}
