use std::net::SocketAddr;

use tempfile::TempDir;

use super::{Running, get, semel};

/// A gateway on free ports, in a directory of its own.
pub(crate) struct Gateway {
    pub(crate) process: Running,
    pub(crate) listen: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) directory: TempDir,
}

// === impl Gateway ===

impl Gateway {
    /// In front of `upstream`, with further arguments and environment variables.
    pub(crate) fn start(
        upstream: SocketAddr,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        Self::start_in(directory, upstream, arguments, variables)
    }

    pub(crate) fn start_in(
        directory: TempDir,
        upstream: SocketAddr,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Self {
        let upstream = format!("http://{upstream}");
        let mut command = semel(directory.path(), &["gateway", "--upstream", &upstream]);
        command.args(["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(arguments);
        command.envs(variables.iter().copied());
        let mut process = Running::start(command);
        let line = process.err.wait_for("semel gateway listening on ");
        let rest = line.strip_prefix("semel gateway listening on http://").expect("an address");
        let (listen, admin) = rest.split_once(" (admin http://").expect("two addresses");
        let admin = admin.strip_suffix(')').expect("a bracket");
        Self {
            process,
            listen: listen.parse().expect("an address"),
            admin: admin.parse().expect("an address"),
            directory,
        }
    }

    /// What `/ready` says.
    pub(crate) fn ready(&self) -> Option<u16> {
        get(self.admin, "/ready").ok().map(|response| response.status)
    }
}
