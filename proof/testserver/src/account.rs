//! The user that runs servers.

use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::path::Path;

use crate::Error;

const NAMES: &[&str] = &["postgres", "nobody"];

/// A user other than ourselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

// === impl Account ===

impl Account {
    /// The user that runs servers; `None` means our own. `PostgreSQL` refuses to run as root.
    pub(crate) fn for_servers() -> Result<Option<Self>, Error> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let passwd = Path::new("/etc/passwd");
        let users = fs::read_to_string(passwd).map_err(Error::at(passwd))?;
        let found = NAMES.iter().find_map(|name| Self::named(name, &users));
        found.map(Some).ok_or(Error::NoAccount { names: NAMES })
    }

    /// Makes `path` this user's own.
    pub(crate) fn give(self, path: &Path) -> Result<(), Error> {
        chown(path, Some(self.uid), Some(self.gid)).map_err(Error::at(path))
    }

    /// Checks that this user may pass `path` and all directories above it; otherwise returns the one that
    /// denies it.
    pub(crate) fn check_passage(self, path: &Path) -> Result<(), Error> {
        for directory in path.ancestors() {
            let found = fs::metadata(directory).map_err(Error::at(directory))?;
            if !self.may_pass(&found) {
                return Err(Error::NoPassage { uid: self.uid, path: directory.to_owned() });
            }
        }
        Ok(())
    }

    fn may_pass(self, directory: &Metadata) -> bool {
        let bit = match directory {
            found if found.uid() == self.uid => 0o100,
            found if found.gid() == self.gid => 0o010,
            _ => 0o001,
        };
        directory.mode() & bit != 0
    }

    fn named(name: &str, users: &str) -> Option<Self> {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut ids = line.split(':').skip(2).map(str::parse);
        match (ids.next()?, ids.next()?) {
            (Ok(uid), Ok(gid)) => Some(Self { uid, gid }),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const USERS: &str =
        "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65533:nobody:/:/bin/false\n";

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let nobody = Some(Account { uid: 65_534, gid: 65_533 });
        assert_eq!(Account::named("nobody", USERS), nobody);
        assert_eq!(Account::named("nobod", USERS), None);
        assert_eq!(Account::named("postgres", USERS), None);
    }

    #[test]
    fn a_directory_that_is_shut_is_named() {
        let outer = tempfile::tempdir().expect("a directory");
        let inner = outer.path().join("inner");
        fs::create_dir(&inner).expect("a directory");
        fs::set_permissions(outer.path(), Permissions::from_mode(0o700)).expect("shut");
        let stranger = Account { uid: 4_000_000_000, gid: 4_000_000_000 };
        let error = stranger.check_passage(&inner).expect_err("no passage");
        assert!(
            error.to_string().contains(&format!("has no access to {}", outer.path().display()))
        );
    }
}
