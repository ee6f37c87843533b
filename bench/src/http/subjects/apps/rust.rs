//! axum. A workspace of its own, as its peers ask for versions of Rust that this one does not.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Installed, PEERS, directory};
use crate::http::tools::said;

static BUILT: Installed = Installed::new();

pub(super) fn command() -> anyhow::Result<Command> {
    let program = BUILT.get(|| {
        let directory = directory("")?;
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--release", "--quiet", "--locked", "--ignore-rust-version"])
            .args(["--manifest-path", &format!("{PEERS}/rust/Cargo.toml"), "--target-dir"])
            .arg(&directory)
            .status()
            .context("cargo does not start")?;
        ensure!(status.success(), "the app with its peers was not built ({status})");
        Ok(directory.join("release").join("semel-bench-peers"))
    })?;
    Ok(Command::new(program))
}

pub(super) fn version() -> String {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    said(Command::new(rustc).arg("--version"))
}
