//! The data directory of a server.

use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::Write as _;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Error;
use crate::account::Account;

/// A directory that this process alone uses. Removed when dropped, if it is a temporary one.
#[derive(Debug)]
pub(crate) struct DataDirectory {
    path: PathBuf,
    temporary: Option<TempDir>,
    lock: File,
}

// === impl Home ===

impl DataDirectory {
    /// A new one, for a server called `name`.
    pub(crate) fn temporary(name: &str, account: Option<Account>) -> Result<Self, Error> {
        let places = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()];
        let passable =
            |place: &&PathBuf| account.is_none_or(|account| account.check_passage(place).is_ok());
        // If the server's user can pass none of them, the check below reports the reason.
        let place = places.iter().find(passable).unwrap_or(&places[0]);
        let directory = tempfile::Builder::new()
            .prefix(&format!("semel-{name}-"))
            .tempdir_in(place)
            .map_err(Error::at(place))?;
        open_up(directory.path(), account)?;
        let (path, lock) = lock(directory.path(), account)?;
        Ok(Self { path, temporary: Some(directory), lock })
    }

    /// The one at `path`, made if there is none.
    pub(crate) fn kept(path: &Path, account: Option<Account>) -> Result<Self, Error> {
        if !path.exists() {
            fs::create_dir_all(path).map_err(Error::at(path))?;
            open_up(path, account)?;
        }
        let (path, lock) = lock(path, account)?;
        Ok(Self { path, temporary: None, lock })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether it is removed on drop.
    pub(crate) fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }
}

impl Drop for DataDirectory {
    fn drop(&mut self) {
        // Closing is not enough: a child that another thread has just forked holds a copy until it
        // becomes its program, and the directory may be wanted again at once.
        let _ = self.lock.unlock();
    }
}

/// Takes possession of `path`, which must be one where `account` gets through.
fn lock(path: &Path, account: Option<Account>) -> Result<(PathBuf, File), Error> {
    let path = path.canonicalize().map_err(Error::at(path))?;
    account.map_or(Ok(()), |account| account.check_passage(&path))?;
    let lock_path = path.join("lock");
    let lock = File::create(&lock_path).map_err(Error::at(&lock_path))?;
    match lock.try_lock() {
        Ok(()) => Ok((path, lock)),
        Err(TryLockError::WouldBlock) => Err(Error::InUse { path }),
        Err(TryLockError::Error(source)) => Err(Error::at(&lock_path)(source)),
    }
}

/// Lets the server's user pass, and other users not.
fn open_up(path: &Path, account: Option<Account>) -> Result<(), Error> {
    let mode = if account.is_some() { 0o711 } else { 0o700 };
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(Error::at(path))
}

/// Writes a file that only the server's user can read.
pub(crate) fn write_private(
    path: &Path,
    content: &str,
    account: Option<Account>,
) -> Result<(), Error> {
    let write = || {
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
        file.write_all(content.as_bytes())
    };
    write().map_err(Error::at(path))?;
    account.map_or(Ok(()), |account| account.give(path))
}
