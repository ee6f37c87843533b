//! The programs that the run needs: the load generator, the yardstick, and the gateway itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, bail, ensure};

const BUILD: &str = "cargo build --release -p semel-cli";
/// Programs that are always needed, and Debian's packages of them.
const USUAL: [(&str, &str); 2] = [("wrk", "wrk"), ("nginx", "nginx-light")];

pub(crate) struct Tools {
    pub(crate) wrk: PathBuf,
    pub(crate) nginx: PathBuf,
    pub(crate) semel: PathBuf,
}

// === impl Tools ===

impl Tools {
    /// Finds all of them, and those that are `also` needed. As root, what is missing is installed.
    pub(crate) fn find(semel: Option<&Path>, also: &[(&str, &str)]) -> anyhow::Result<Self> {
        let missing = || USUAL.iter().chain(also).filter(|(name, _)| look_up(name).is_none());
        let packages: Vec<&str> = missing().map(|(_, package)| *package).collect();
        let cure = format!("apt-get install {}", packages.join(" "));
        if !packages.is_empty() {
            install(&packages)?;
        }
        let names: Vec<&str> = missing().map(|(name, _)| *name).collect();
        ensure!(names.is_empty(), "{} must be there; install with: {cure}", names.join(", "));
        let needed = |name| look_up(name).context("it was there a moment ago");
        let semel = match semel {
            Some(path) => path.to_owned(),
            None => build()?,
        };
        ensure!(semel.is_file(), "{} is not there; build it with: {BUILD}", semel.display());
        Ok(Self { wrk: needed("wrk")?, nginx: needed("nginx")?, semel })
    }

    /// The same, with another gateway.
    pub(crate) fn with_semel(&self, semel: &Path) -> anyhow::Result<Self> {
        ensure!(semel.is_file(), "{} is not there", semel.display());
        Ok(Self { wrk: self.wrk.clone(), nginx: self.nginx.clone(), semel: semel.to_owned() })
    }

    /// What was measured with what.
    pub(crate) fn versions(&self) -> String {
        let nginx = said(Command::new(&self.nginx).arg("-v"));
        let wrk = said(Command::new(&self.wrk).arg("-v"));
        let wrk = wrk.split(" Copyright").next().unwrap_or_default();
        let semel = said(Command::new(&self.semel).arg("--version"));
        format!("{semel}, {nginx}, {wrk}")
    }
}

/// Administrators' programs are often not in the path of others.
pub(crate) fn look_up(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/usr/local/sbin".into()]);
    places.chain(postgresql()).map(|place| place.join(name)).find(|program| program.is_file())
}

/// Where Debian keeps the servers of PostgreSQL.
fn postgresql() -> impl Iterator<Item = PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    versions.map(|version| version.path().join("bin"))
}

fn install(packages: &[&str]) -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() || look_up("apt-get").is_none() {
        return Ok(());
    }
    let names = packages.join(" ");
    println!("installing {names} ...");
    let status = Command::new("sh").args(["-c", INSTALL, "sh"]).args(packages).status()?;
    ensure!(status.success(), "this failed: apt-get install {names}");
    Ok(())
}

/// Servers are installed for this run only, without a system service.
const INSTALL: &str = r"
policy=/usr/sbin/policy-rc.d
[ -e $policy ] || { trap 'rm -f /usr/sbin/policy-rc.d' EXIT; printf '#!/bin/sh\nexit 101\n' >$policy; chmod +x $policy; }
apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $* >/dev/null
";

/// Builds the gateway into the directory that this program is in, so that what is measured is what
/// the sources say.
fn build() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let target = own.parent().and_then(Path::parent).context("this program is in no directory")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    let status = Command::new(cargo)
        .args(["build", "--release", "-p", "semel-cli", "--quiet"])
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target)
        .status();
    match status {
        Ok(status) if status.success() => Ok(target.join("release").join("semel")),
        Ok(status) => bail!("this failed ({status}): {BUILD}"),
        Err(error) => bail!("cargo does not start ({error}); build the gateway with: {BUILD}"),
    }
}

/// The first line a program says.
pub(crate) fn said(command: &mut Command) -> String {
    let Ok(output) = command.output() else {
        return "?".to_owned();
    };
    let all = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&all).lines().next().unwrap_or("?").trim().to_owned()
}
