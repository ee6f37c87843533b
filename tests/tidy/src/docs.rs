//! The README, the book and what links them.

use crate::files::{files, read, root};

#[test]
fn the_readme_is_short_and_names_the_two_commands() {
    let text = read(&root().join("README.md"));
    assert!(text.lines().count() <= 150, "{} lines", text.lines().count());
    assert!(text.contains("cargo run --release -- demo"));
    assert!(text.contains("./test"));
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
