//! The gateway's program: built out of the workspace, or given.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

/// Where the program is that was built along with the tests (`scripts/run_tests.py`).
const BUILT: &str = "TORTURE_PROGRAM";

/// The program at `given`; else it is built into the directory that this program is in, in the same
/// way, so that what is tried is what the sources say.
pub fn build(given: Option<&Path>) -> anyhow::Result<PathBuf> {
    match given {
        Some(path) => find(path),
        None if own_profile()?.ends_with("release") => cargo_build("release", &["--release"]),
        None => cargo_build("debug", &[]),
    }
}

/// The program for tests, into which bugs can be planted: the one that was built along with them, if
/// the variable says where that is; else it is built now.
pub fn build_with_bugs() -> anyhow::Result<PathBuf> {
    match std::env::var_os(BUILT) {
        Some(path) => find(Path::new(&path)),
        None => cargo_build("debug", &["--features", "planted-bugs"]),
    }
}

fn find(path: &Path) -> anyhow::Result<PathBuf> {
    ensure!(path.is_file(), "{} is not there", path.display());
    Ok(path.canonicalize()?)
}

/// The directory that this program was built into.
fn own_profile() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let is_profile = |path: &&Path| path.ends_with("release") || path.ends_with("debug");
    let profile = own.ancestors().find(is_profile);
    Ok(profile.context("this program was not built by cargo")?.to_owned())
}

fn cargo_build(profile: &str, arguments: &[&str]) -> anyhow::Result<PathBuf> {
    let own = own_profile()?;
    let target = own.parent().context("this program is in no directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["build", "-p", "semel-cli", "--quiet"]).args(arguments);
    command.arg("--manifest-path");
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.toml"));
    command.arg("--target-dir").arg(target);
    match command.status() {
        Ok(status) if status.success() => Ok(target.join(profile).join("semel")),
        Ok(status) => bail!("cargo build -p semel-cli failed ({status})"),
        Err(error) => bail!("cargo does not start ({error}); name a gateway with --semel"),
    }
}

/// The first line that a program says of its version.
pub fn version(program: &Path) -> String {
    let Ok(output) = Command::new(program).arg("--version").output() else {
        return "?".to_owned();
    };
    String::from_utf8_lossy(&output.stdout).lines().next().unwrap_or("?").trim().to_owned()
}
