//! Speaking to the server as its superuser.

use std::process::Command;
use std::time::Duration;

use super::{NAME, Postgres};
use crate::Error;
use crate::run::run;

const LIMIT: Duration = Duration::from_mins(1);

// === impl Postgres ===

impl Postgres {
    /// Runs SQL in the database `semel`, with `psql`: a line per row, columns apart by `|`.
    ///
    /// Each statement is a transaction of its own; the first that fails is the last.
    pub fn psql(&self, sql: &str) -> Result<String, Error> {
        self.psql_within(LIMIT, sql)
    }

    /// The same, given up after `limit`. What was sent by then may still be done.
    pub fn psql_within(&self, limit: Duration, sql: &str) -> Result<String, Error> {
        self.psql_in(NAME, sql, limit)
    }

    /// The same, in another database: `target` is a URL, or the parameters of a connection.
    pub fn psql_at(&self, target: &str, sql: &str) -> Result<String, Error> {
        self.run_psql(target, sql, LIMIT)
    }

    pub(super) fn psql_in(
        &self,
        database: &str,
        sql: &str,
        limit: Duration,
    ) -> Result<String, Error> {
        self.run_psql(&self.url_of(database), sql, limit)
    }

    fn run_psql(&self, target: &str, sql: &str, limit: Duration) -> Result<String, Error> {
        let mut psql = Command::new(self.bin("psql"));
        psql.args(["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d", target]);
        // Passwords and certificates of the user that runs the tests are not for this server.
        psql.env("HOME", self.directory());
        let mut printed = run("psql", psql, sql, limit)?;
        printed.truncate(printed.trim_end_matches('\n').len());
        Ok(printed)
    }
}
