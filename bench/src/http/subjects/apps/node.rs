//! Express, on Node.js.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Installed, copy, directory, note};
use crate::http::tools::{look_up, said};

const CURE: &str = "Node.js 20 or later and npm are needed for its peers; \
                    install them with: apt-get install nodejs npm; \
                    or leave them out with: --only NAME";
const FILES: [&str; 5] =
    ["package.json", "package-lock.json", "app.js", "routes.js", "node-idempotency.js"];
const LOCK: &str = "package-lock.json";

static INSTALLED: Installed = Installed::new();

pub(super) fn command() -> anyhow::Result<Command> {
    let app = INSTALLED.get(|| {
        let directory = directory("node")?;
        if !copy("node", &FILES, LOCK)? {
            println!("npm ci ...");
            let npm = look_up("npm").context(CURE)?;
            let status = Command::new(npm)
                .args(["ci", "--no-audit", "--no-fund", "--loglevel=error"])
                .current_dir(&directory)
                .status()?;
            ensure!(status.success(), "npm ci failed ({status}) in {}", directory.display());
            note("node", LOCK)?;
        }
        Ok(directory.join("app.js"))
    })?;
    let mut command = Command::new(look_up("node").context(CURE)?);
    command.arg(app).env("NODE_ENV", "production");
    Ok(command)
}

pub(super) fn version() -> String {
    format!("Node.js {}", said(Command::new("node").arg("--version")))
}
