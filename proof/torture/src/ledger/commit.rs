//! Which sources a run tries.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

/// The commit that is checked out in the repository at `here`. Fails on uncommitted changes other than `ledger`: the
/// sources of such a run could not be found again.
pub(super) fn current(here: &Path, ledger: &Path) -> anyhow::Result<String> {
    let top = git(here, &["rev-parse", "--show-toplevel"])?;
    let top = Path::new(&top).canonicalize()?;
    let mut status = vec!["status", "--porcelain", "--", "."];
    let own = ledger.canonicalize()?;
    let own = own.strip_prefix(&top).ok().map(|own| format!(":(exclude){}", own.display()));
    status.extend(own.as_deref());
    let changed = git(&top, &status)?;
    ensure!(
        changed.is_empty(),
        "a row of the ledger names the commit that was tried, and there are changes that are in none. \
         Commit or stash them, or run without --ledger:\n{changed}"
    );
    git(here, &["rev-parse", "--short", "HEAD"])
}

fn git(here: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("git").current_dir(here).args(arguments).output();
    let output = output.context("git does not start, and the ledger names a commit")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_ledger_may_have_changed() {
        let directory = tempfile::tempdir().expect("a directory");
        let here = directory.path();
        let (ledger, other) = (here.join("proof.md"), here.join("other"));
        std::fs::write(&ledger, "empty").expect("written");
        git(here, &["init", "--quiet"]).expect("a repository");
        git(here, &["add", "."]).expect("added");
        let who = ["-c", "user.name=n", "-c", "user.email=e"];
        git(here, &[&who[..], &["commit", "--quiet", "-m", "m"]].concat()).expect("committed");
        let head = git(here, &["rev-parse", "--short", "HEAD"]).expect("a commit");
        std::fs::write(&ledger, "a row").expect("written");
        assert_eq!(current(here, &ledger).expect("clean"), head);
        std::fs::write(&other, "new").expect("written");
        let error = current(here, &ledger).expect_err("changed").to_string();
        assert!(error.contains("Commit or stash") && error.contains("?? other"), "{error}");
    }
}
