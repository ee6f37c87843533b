//! Starting servers, and what they are like.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;
use std::thread;

use semel_testserver::{Error, Postgres};
use tempfile::TempDir;

/// A directory that the server's user may pass, too.
fn scratch() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    fs::set_permissions(scratch.path(), Permissions::from_mode(0o711)).expect("open to all");
    scratch
}

#[test]
fn a_server_can_be_used_as_soon_as_it_is_started() {
    let postgres = Postgres::start().expect("a server");
    let port = postgres.port();
    let password = postgres.password();
    assert_eq!(postgres.url(), format!("postgres://semel:{password}@127.0.0.1:{port}/semel"));
    let account = "select current_user, current_database(), usesuper from pg_user";
    assert_eq!(postgres.psql(account).expect("an answer"), "semel|semel|t");
    assert_eq!(postgres.psql("show fsync; show synchronous_commit").expect("both"), "on\non");
    assert_eq!(postgres.psql("show listen_addresses").expect("one"), "127.0.0.1");
    assert_eq!(postgres.certificate(), None);
    assert!(postgres.directory().join("log").exists());
}

#[test]
fn a_password_is_needed() {
    let postgres = Postgres::shared();
    let port = postgres.port();
    for user in ["semel:wrong", "semel", "postgres"] {
        let url = format!("postgres://{user}@127.0.0.1:{port}/semel");
        let error = postgres.psql_at(&url, "select 1").expect_err("refused");
        assert!(error.to_string().contains("password"), "{error}");
    }
}

#[test]
fn failing_sql_is_quoted_and_ends_the_script() {
    let postgres = Postgres::shared();
    let url = postgres.new_database().expect("a database");
    let script = "create table one (a int); select nothing; create table two (a int)";
    let error = postgres.psql_at(&url, script).expect_err("an error");
    assert!(error.to_string().contains("column \"nothing\" does not exist"), "{error}");
    let tables = "select relname from pg_class where relname in ('one', 'two')";
    assert_eq!(postgres.psql_at(&url, tables).expect("tables"), "one");
}

#[test]
fn settings_are_the_servers() {
    let options = Postgres::options().setting("max_connections", "17").setting("work_mem", "5MB");
    let postgres = options.start().expect("a server");
    assert_eq!(postgres.psql("show max_connections; show work_mem").expect("both"), "17\n5MB");
}

#[test]
fn a_start_that_fails_shows_the_log() {
    let error = Postgres::options().setting("max_connections", "-5").start().expect_err("no");
    assert!(matches!(error, Error::NotStarted { .. }), "{error:?}");
    assert!(error.to_string().contains("max_connections"), "{error}");
}

#[test]
fn a_server_that_is_not_installed_is_missed_aloud() {
    let error = Postgres::options().binaries("/nowhere").start().expect_err("nothing there");
    let text = error.to_string();
    assert!(
        text.contains("/nowhere") && text.contains("sudo apt-get install postgresql"),
        "{text}"
    );
}

#[test]
fn programs_of_the_servers_version_are_found() {
    let pgbench = Postgres::shared().bin("pgbench");
    let output = Command::new(pgbench).arg("--version").output().expect("it runs");
    let printed = String::from_utf8_lossy(&output.stdout);
    let version = Postgres::shared().psql("show server_version").expect("a version");
    assert!(printed.contains(&version), "{printed} is not of {version}");
}

#[test]
fn a_directory_keeps_its_cluster() {
    let scratch = scratch();
    let path = scratch.path().join("deep/down").join("x".repeat(150));
    let options = Postgres::options().directory(&path);
    let postgres = options.clone().start().expect("a server");
    postgres.psql("create table kept as select 42 as a").expect("a table");
    let database = postgres.new_database().expect("a database");
    let name = database.rsplit('/').next().expect("a name").to_owned();

    let error = options.clone().start().expect_err("one at a time");
    assert!(matches!(error, Error::InUse { .. }), "{error:?}");

    let password = postgres.password().to_owned();
    drop(postgres);
    let postgres = options.start().expect("a server");
    assert_eq!(postgres.password(), password);
    assert_eq!(postgres.psql("select a from kept").expect("kept"), "42");
    let names = "select count(*) from pg_database where datname = ";
    assert_eq!(postgres.psql(&format!("{names} '{name}'")).expect("a count"), "1");
}

#[test]
fn many_threads_get_a_database_each() {
    let postgres = Postgres::shared();
    let urls: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..20).map(|_| scope.spawn(|| postgres.new_database().expect("a database"))).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    for url in &urls {
        // The same table in each: they are not the same database.
        let sql = "create table mine as select current_database() as name; select name from mine";
        let name = postgres.psql_at(url, sql).expect("an answer");
        assert!(url.ends_with(&format!("/{name}")), "{url} is {name}");
    }
}

#[test]
fn a_tls_server_has_a_certificate_that_can_be_trusted() {
    let postgres = Postgres::options().tls().start().expect("a server");
    let certificate = postgres.certificate().expect("a certificate").display();
    let is_tls = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    let url = postgres.url();
    for (mode, tls) in [
        ("disable".to_owned(), "f"),
        ("require".to_owned(), "t"),
        (format!("verify-full&sslrootcert={certificate}"), "t"),
    ] {
        let url = format!("{url}?sslmode={mode}");
        assert_eq!(postgres.psql_at(&url, is_tls).expect("an answer"), tls, "{mode}");
    }
    let by_name = url.replace("127.0.0.1", "localhost");
    let url = format!("{by_name}?sslmode=verify-full&sslrootcert={certificate}");
    assert_eq!(postgres.psql_at(&url, is_tls).expect("an answer"), "t");
}

#[test]
fn a_server_without_tls_offers_none() {
    let postgres = Postgres::shared();
    let url = format!("{}?sslmode=require", postgres.url());
    let error = postgres.psql_at(&url, "select 1").expect_err("no TLS");
    assert!(error.to_string().contains("does not support SSL"), "{error}");
}
