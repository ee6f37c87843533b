//! `FastAPI`, on uvicorn.

use std::process::Command;

use anyhow::{Context as _, ensure};

use super::{Installed, copy, directory, note};
use crate::http::tools::{look_up, said};

const CURE: &str = "Python 3.11 or later with venv is needed for its peers; \
                    install it with: apt-get install python3-venv; \
                    or leave them out with: --only NAME";
const LOCK: &str = "requirements.txt";

static INSTALLED: Installed = Installed::new();

pub(super) fn command() -> anyhow::Result<Command> {
    let directory = directory("python")?;
    let python = INSTALLED.get(|| {
        let environment = directory.join("venv");
        let python = environment.join("bin").join("python");
        if !copy("python", &[LOCK, "app.py"], LOCK)? || !python.exists() {
            println!("pip install ...");
            let system = look_up("python3").context(CURE)?;
            let status =
                Command::new(system).args(["-m", "venv", "--clear"]).arg(&environment).status()?;
            ensure!(status.success(), "no environment was made; {CURE}");
            let status = Command::new(&python)
                .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
                .arg("--requirement")
                .arg(directory.join(LOCK))
                .status()?;
            ensure!(status.success(), "pip install failed ({status})");
            note("python", LOCK)?;
        }
        Ok(python)
    })?;
    let mut command = Command::new(python);
    command.arg(directory.join("app.py"));
    Ok(command)
}

pub(super) fn version() -> String {
    said(Command::new("python3").arg("--version"))
}
