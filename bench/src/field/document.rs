//! The page that the figures are written to. It has parts, and a run replaces those that it took.

use std::fmt::Write as _;
use std::path::Path;

pub(crate) const PARTS: [&str; 3] = ["table", "probes", "growth"];

const HEAD: &str = "\
# Benchmarks against the field

Written by `cargo run --release -p semel-bench -- all`, from what it ran. Do not edit it: the next run replaces each
part between its marks. What is measured, how the peers are set up, and why these:
[bench/README.md](../bench/README.md#against-the-field) and
[0027](decisions/0027-benchmarks-against-the-field.md).

Everything shares the cores of one machine: load generator, proxy, app and store. Trust ratios more than rates, and
none of them for another machine.
";

/// One part, ready to be put in its place.
pub(crate) struct Part {
    pub(crate) name: &'static str,
    pub(crate) text: String,
}

/// Writes the parts into the page, and keeps the others that it has.
pub(crate) fn write(page: &Path, parts: &[Part]) -> anyhow::Result<()> {
    let old = std::fs::read_to_string(page).unwrap_or_default();
    if let Some(directory) = page.parent() {
        std::fs::create_dir_all(directory)?;
    }
    Ok(std::fs::write(page, merged(&old, parts))?)
}

fn merged(old: &str, parts: &[Part]) -> String {
    let mut text = HEAD.to_owned();
    for name in PARTS {
        let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
        let new = parts.iter().find(|part| part.name == name).map(|part| part.text.as_str());
        let kept = old.split_once(&start).and_then(|(_, rest)| rest.split_once(&end));
        if let Some(part) = new.or(kept.map(|(part, _)| part)) {
            let _ = write!(text, "\n{start}{}\n{end}", part.trim_end());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::roster::ROSTER;

    fn part(name: &'static str, text: &str) -> Part {
        Part { name, text: text.to_owned() }
    }

    /// A changed set of subjects needs a new measurement.
    #[test]
    fn the_page_has_all_subjects_parts_and_plots() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
        let page = std::fs::read_to_string(docs.join("benchmarks.md")).expect("the page");
        for entry in &ROSTER {
            assert!(page.contains(entry.name), "{} was not measured", entry.name);
        }
        for name in PARTS {
            assert!(page.contains(&format!("<!-- end of {name} -->")), "{name} is missing");
        }
        let links = page.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let plots: Vec<&str> = links.filter(|link| link.starts_with("benchmarks/")).collect();
        assert_eq!(plots.len(), 6, "{plots:?}");
        assert!(plots.iter().all(|plot| docs.join(plot).is_file()), "{plots:?}");
    }

    #[test]
    fn a_run_replaces_its_parts_and_keeps_the_others() {
        let first = merged("", &[part("growth", "old growth"), part("table", "old table")]);
        let second = merged(&first, &[part("table", "new table"), part("probes", "some probes")]);
        assert!(second.starts_with(HEAD));
        let places = ["new table", "some probes", "old growth"].map(|text| second.find(text));
        assert!(places.is_sorted() && places[0].is_some(), "{second}");
        assert!(!second.contains("old table"), "{second}");
        assert_eq!(merged(&second, &[]), second);
    }
}
