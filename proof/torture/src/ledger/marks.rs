//! Where the claims are in the file.

use std::path::Path;

use anyhow::Context as _;

pub(super) const BEGIN: &str = "<!-- claims -->";
pub(super) const END: &str = "<!-- end of claims -->";

/// What is before the claims and what is after them, with the marks.
pub(super) fn around<'a>(text: &'a str, file: &Path) -> anyhow::Result<(&'a str, &'a str)> {
    let found = text.find(BEGIN).and_then(|begin| {
        let (before, rest) = text.split_at(begin + BEGIN.len());
        Some((before, &rest[rest.find(END)?..]))
    });
    found.with_context(|| {
        let shown = file.display();
        format!(
            "no place for claims in {shown}: what is written with a row of the ledger goes \
             between these marks:\n{BEGIN}\n{END}"
        )
    })
}

/// The text with these claims instead of its own.
pub(super) fn filled(text: &str, file: &Path, claims: &str) -> anyhow::Result<String> {
    let (before, after) = around(text, file)?;
    Ok(format!("{before}\n\n{claims}\n\n{after}"))
}
