//! Source files and manifests.

use std::path::PathBuf;

use crate::files::{files, product_code, product_files, read, root};

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

/// Each crate, and its one place where what went wrong becomes a problem.
const PROBLEMS: [(&str, &str); 2] =
    [("semel-http", "layer/rejection.rs"), ("semel-gateway", "failure.rs")];

#[test]
fn problems_are_made_in_one_place() {
    for (name, place) in PROBLEMS {
        let source = root().join("crates").join(name).join("src");
        let makes_one = |path: &PathBuf| product_code(path).contains("Problem::new(");
        let found: Vec<_> = product_files(&source).into_iter().filter(makes_one).collect();
        assert_eq!(found, [source.join(place)], "{name} makes problems");
    }
}
