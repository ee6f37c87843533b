//! The same app on axum, Express and `FastAPI`, with one layer or another around it: programs of
//! their own, in `bench/peers`.

mod node;
mod python;
mod rust;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;

use anyhow::Context as _;

use super::{Kind, Subject};
use crate::http::running::{Running, log_in};

const PEERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers");
const LISTENING: &str = "app listening on ";

/// What is around the app.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layer {
    /// axum, with nothing around it.
    Axum,
    /// `semel::http::SemelLayer` on `semel::redis`.
    Semel,
    /// The crate `idempotent` with its Valkey store.
    Idempotent,
    /// The crate `axum-idempotent`, with records in memory.
    AxumIdempotent,
    /// Express, with nothing around it.
    Express,
    /// `express-idempotency` with its Redis adapter.
    ExpressIdempotency,
    /// `@node-idempotency/core` with its Redis adapter.
    NodeIdempotency,
    /// `FastAPI`, with nothing around it.
    FastApi,
    /// `asgi-idempotency-header` with its Redis backend.
    AsgiIdempotencyHeader,
}

/// A program that is installed or built when it is first needed, and then no more.
struct Installed(Mutex<Option<PathBuf>>);

// === impl Layer ===

impl Layer {
    fn name(self) -> &'static str {
        match self {
            Self::Axum | Self::Express | Self::FastApi => "bare",
            Self::Semel => "semel",
            Self::Idempotent => "idempotent",
            Self::AxumIdempotent => "axum-idempotent",
            Self::ExpressIdempotency => "express-idempotency",
            Self::NodeIdempotency => "node-idempotency",
            Self::AsgiIdempotencyHeader => "asgi-idempotency-header",
        }
    }

    fn command(self) -> anyhow::Result<Command> {
        match self {
            Self::Axum | Self::Semel | Self::Idempotent | Self::AxumIdempotent => rust::command(),
            Self::Express | Self::ExpressIdempotency | Self::NodeIdempotency => node::command(),
            Self::FastApi | Self::AsgiIdempotencyHeader => python::command(),
        }
    }
}

// === impl Installed ===

impl Installed {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn get(&self, install: impl FnOnce() -> anyhow::Result<PathBuf>) -> anyhow::Result<PathBuf> {
        let mut installed = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(path) = &*installed {
            return Ok(path.clone());
        }
        Ok(installed.insert(install()?).clone())
    }
}

pub(super) fn start(
    layer: Layer,
    redis: u16,
    name: &str,
    scratch: &Path,
) -> anyhow::Result<Subject> {
    let mut command = layer.command()?;
    command.arg(layer.name()).arg(format!("redis://127.0.0.1:{redis}"));
    // It ends with the pipe: also if this process is killed and cannot end it.
    command.stdin(Stdio::piped());
    let mut running = Running::start("the app", log_in(scratch, name), &mut command)?;
    let address = running.wait_for(|said| {
        said.lines().find_map(|line| line.strip_prefix(LISTENING)?.parse().ok())
    })?;
    let kind = Kind::App(layer, redis);
    Ok(Subject { kind, address, admin: None, executes: address, running: Some(running) })
}

/// What runs the apps.
pub(crate) fn versions() -> String {
    [rust::version(), node::version(), python::version()].join(", ")
}

/// A directory for what is installed or built, beside what cargo builds.
fn directory(name: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
    Ok(target.join("peers").join(name))
}

/// Copies files of a peer's directory. True if the installation for `lock` is present.
fn copy(name: &str, files: &[&str], lock: &str) -> anyhow::Result<bool> {
    let (from, to) = (Path::new(PEERS).join(name), directory(name)?);
    std::fs::create_dir_all(&to)?;
    for file in files {
        let text = std::fs::read(from.join(file)).with_context(|| format!("{name}/{file}"))?;
        std::fs::write(to.join(file), text)?;
    }
    let wanted = std::fs::read(from.join(lock))?;
    Ok(std::fs::read(to.join(INSTALLED)).is_ok_and(|installed| installed == wanted))
}

/// Notes what was installed: a copy of what says so.
fn note(name: &str, lock: &str) -> anyhow::Result<()> {
    let to = directory(name)?;
    std::fs::copy(to.join(lock), to.join(INSTALLED))?;
    Ok(())
}

const INSTALLED: &str = "installed";
