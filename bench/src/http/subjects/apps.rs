//! The same axum app with one layer or another around it: a program of its own, as its peers ask for
//! versions of Rust that this workspace does not.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

use super::{Kind, Subject};
use crate::http::running::{Running, log_in};

const MANIFEST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/rust/Cargo.toml");
const LISTENING: &str = "app listening on ";

/// What is around the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// `semel::http::SemelLayer` on `semel::redis`.
    Semel,
    /// The crate `idempotent` with its Valkey store.
    Idempotent,
}

// === impl Layer ===

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Self::Semel => "semel",
            Self::Idempotent => "idempotent",
        }
    }
}

pub(super) fn start(layer: Layer, redis: u16, scratch: &Path) -> anyhow::Result<Subject> {
    let kind = Kind::App(layer, redis);
    let mut command = Command::new(build()?);
    command.arg(layer.name()).arg(format!("redis://127.0.0.1:{redis}"));
    // It ends with the pipe: also if this process is killed and cannot end it.
    command.stdin(Stdio::piped());
    let mut running = Running::start("the app", log_in(scratch, &kind.name()), &mut command)?;
    let address = running.wait_for(|said| {
        said.lines().find_map(|line| line.strip_prefix(LISTENING)?.parse().ok())
    })?;
    Ok(Subject { kind, address, executes: address, running })
}

fn build() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = target.join("peers");
    let status = Command::new(cargo)
        .args(["build", "--release", "--quiet", "--locked", "--ignore-rust-version"])
        .args(["--manifest-path", MANIFEST, "--target-dir"])
        .arg(&target)
        .status()?;
    ensure!(status.success(), "the app with its peers was not built ({status})");
    Ok(target.join("release").join("semel-bench-peers"))
}
