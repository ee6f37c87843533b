//! A store on a real PostgreSQL server.

use std::any::Any;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_testserver::Postgres;

use super::{Ended, Server, semel};

/// A schema of its own in the database of a server, made by `semel migrate`.
pub(crate) struct Database {
    url: String,
}

// === impl Database ===

impl Database {
    /// On the server that all tests share, which is never stopped.
    pub(crate) fn shared() -> Self {
        let database = Self::unmigrated(Postgres::shared());
        database.migrate();
        database
    }

    /// On a server that the test may stop.
    pub(crate) fn on(server: &Postgres) -> Self {
        let database = Self::unmigrated(server);
        database.migrate();
        database
    }

    /// Without tables.
    pub(crate) fn unmigrated(server: &Postgres) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { url: format!("{}?schema=contract_{number}", server.url()) }
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn schema(&self) -> &str {
        self.url.rsplit_once("schema=").expect("an address of ours").1
    }

    /// `semel migrate`, with further arguments.
    pub(crate) fn run_migrate(&self, arguments: &[&str]) -> Ended {
        let directory = tempfile::tempdir().expect("a directory");
        let mut command = semel(&["migrate"]);
        Ended::of(command.args(arguments).env("SEMEL_STORE", &self.url).current_dir(&directory))
    }

    fn migrate(&self) {
        let ended = self.run_migrate(&[]);
        assert_eq!(ended.code, Some(0), "{ended:?}");
    }
}

impl Server for Postgres {
    const KIND: &str = "postgres";

    fn start() -> Self {
        Self::start().expect("a server")
    }

    fn store(&self) -> String {
        Database::on(self).url
    }

    fn shared_store() -> String {
        Database::shared().url
    }

    fn shifted_store(by: i64) -> (Box<dyn Any>, String) {
        let database = Database::shared();
        let schema = database.schema();
        let sql = format!(
            "CREATE OR REPLACE FUNCTION {schema}.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
             'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ({by})'"
        );
        Self::shared().psql(&sql).expect("another clock");
        (Box::new(()), database.url)
    }

    fn kill(&self) {
        self.kill().expect("a server to kill");
    }

    fn stop(&self) {
        self.stop_fast().expect("a server to stop");
    }

    fn start_again(&self) {
        self.start_again().expect("a server");
    }

    fn pause(&self) {
        self.pause().expect("a server to freeze");
    }

    fn resume(&self) {
        self.resume().expect("a frozen server");
    }
}
