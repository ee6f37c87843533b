//! Databases for tests that share a server.

use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{NAME, Postgres};
use crate::Error;
use crate::token::token;
use crate::waiting::wait_for;

const LIMIT: Duration = Duration::from_mins(1);

// === impl Postgres ===

impl Postgres {
    /// Makes an empty database of the caller's own; returns its URL.
    ///
    /// It takes a fraction of a second. Many threads may ask at once.
    pub fn new_database(&self) -> Result<String, Error> {
        let number = self.databases.fetch_add(1, Ordering::Relaxed);
        // A cluster that is kept has the databases of earlier processes.
        let name = format!("{NAME}_{}_{number}", token::<4>()?);
        self.make_database(&name)?;
        Ok(self.url_of(&name))
    }

    /// Makes the database `semel`, unless it is there.
    pub(super) fn make_first_database(&self) -> Result<(), Error> {
        let sql = format!("select 1 from pg_database where datname = '{NAME}'");
        if self.psql_in("postgres", &sql, LIMIT)?.is_empty() {
            self.make_database(NAME)?;
        }
        Ok(())
    }

    /// One at a time: `PostgreSQL` copies no database that has other sessions.
    fn make_database(&self, name: &str) -> Result<(), Error> {
        let _one = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let sql = format!("create database {name} template template0");
        let mut last = Ok(String::new());
        // The server's own processes may be in there for a moment, too.
        let _ = wait_for(LIMIT, || {
            last = self.psql_in("postgres", &sql, LIMIT);
            let busy = matches!(&last, Err(Error::Failed { output, .. }) if output.contains("is being accessed"));
            (!busy).then_some(())
        });
        last.map(drop)
    }
}
