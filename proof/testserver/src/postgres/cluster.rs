//! Making the files of a cluster.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::NAME;
use super::binaries::Binaries;
use crate::Error;
use crate::account::Account;
use crate::directory::{DataDirectory, write_private};
use crate::run::run;
use crate::supervisor::tied;
use crate::token::token;

const LIMIT: Duration = Duration::from_mins(2);

/// Where in its directory a server keeps the cluster.
pub(super) fn data(directory: &DataDirectory) -> PathBuf {
    directory.path().join("data")
}

/// Makes a cluster, unless there is one; the superuser's password.
pub(super) fn make(
    directory: &DataDirectory,
    binaries: &Binaries,
    account: Option<Account>,
) -> Result<String, Error> {
    let password_path = directory.path().join("password");
    if data(directory).exists() {
        return fs::read_to_string(&password_path).map_err(Error::at(&password_path));
    }
    let password = token::<16>()?;
    write_private(&password_path, &password, account)?;
    // A cluster that was not finished must not be taken for one: it gets its name at the end.
    let new = directory.path().join("data.new");
    empty(&new, account)?;
    let mut initdb = tied(&binaries.get("initdb"), account, "KILL");
    initdb.arg("--pgdata").arg(&new).arg("--pwfile").arg(&password_path);
    initdb.args(["--username", NAME, "--auth=scram-sha-256", "--no-locale", "--encoding=UTF8"]);
    if directory.is_temporary() {
        initdb.arg("--no-sync");
    }
    initdb.current_dir(directory.path());
    run("initdb", initdb, "", LIMIT)?;
    fs::rename(&new, data(directory)).map_err(Error::at(&new))?;
    Ok(password)
}

/// An empty directory of the server's user.
fn empty(path: &Path, account: Option<Account>) -> Result<(), Error> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => fs::create_dir(path),
    }
    .map_err(Error::at(path))?;
    account.map_or(Ok(()), |account| account.give(path))
}
