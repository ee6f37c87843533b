//! Where `PostgreSQL` is installed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::Error;

const NEEDED: [&str; 3] = ["initdb", "postgres", "psql"];
/// Where Debian puts each version, out of the way of `PATH`.
const INSTALLED: &str = "/usr/lib/postgresql";

/// The directory with the programs of one version.
#[derive(Debug)]
pub(super) struct Binaries {
    directory: PathBuf,
}

// === impl Binaries ===

impl Binaries {
    /// Those in `given`; else those on `PATH`, the newest of Debian's, or those that `pg_config`
    /// knows.
    pub(super) fn find(given: Option<&Path>) -> Result<Self, Error> {
        if let Some(directory) = given {
            return Self::complete(directory).ok_or_else(|| missing(&directory.to_string_lossy()));
        }
        let places: [fn() -> Vec<PathBuf>; 3] = [on_path, installed, configured];
        let mut found = places.iter().flat_map(|look| look());
        found
            .find_map(|directory| Self::complete(&directory))
            .ok_or_else(|| missing(&format!("PATH, {INSTALLED} and `pg_config --bindir`")))
    }

    pub(super) fn get(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn complete(directory: &Path) -> Option<Self> {
        let complete = NEEDED.iter().all(|name| directory.join(name).is_file());
        complete.then(|| Self { directory: directory.to_owned() })
    }
}

fn missing(looked_in: &str) -> Error {
    Error::NotInstalled {
        what: format!("PostgreSQL server ({})", NEEDED.join(", ")),
        looked_in: looked_in.to_owned(),
        package: "postgresql",
    }
}

/// Links are followed: beside the server itself are the programs of its version, and beside a link
/// to it there may be Debian's wrappers, which choose for themselves.
fn on_path() -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let servers = env::split_paths(&path).map(|directory| directory.join("postgres"));
    servers.filter_map(|server| Some(server.canonicalize().ok()?.parent()?.to_owned())).collect()
}

fn installed() -> Vec<PathBuf> {
    let entries = fs::read_dir(INSTALLED).into_iter().flatten().flatten();
    let mut versions: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| Some((version(entry.file_name().to_str()?)?, entry.path().join("bin"))))
        .collect();
    versions.sort();
    versions.into_iter().rev().map(|(_, directory)| directory).collect()
}

fn version(name: &str) -> Option<Vec<u32>> {
    name.split('.').map(|part| part.parse().ok()).collect()
}

fn configured() -> Vec<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output();
    let printed = output.map(|output| output.stdout).unwrap_or_default();
    vec![PathBuf::from(String::from_utf8_lossy(&printed).trim())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_not_there_is_missed_with_its_package() {
        let error = Binaries::find(Some(Path::new("/nowhere"))).expect_err("nothing there");
        assert_eq!(
            error.to_string(),
            "no PostgreSQL server (initdb, postgres, psql) in /nowhere; \
             install it with: sudo apt-get install postgresql"
        );
    }

    #[test]
    fn versions_compare_as_numbers() {
        assert!(version("15") > version("9.6"));
        assert!(version("9.10") > version("9.6"));
        assert_eq!(version("common"), None);
    }

    #[test]
    fn programs_are_of_the_version_of_the_server() {
        let binaries = Binaries::find(None).expect("an installation");
        for name in NEEDED {
            let output = Command::new(binaries.get(name)).arg("--version").output();
            assert!(output.expect("it runs").status.success(), "{name}");
        }
    }
}
