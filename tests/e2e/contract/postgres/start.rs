//! A gateway that cannot use its database says so in one line, with the cure, and ends with 1.

use std::fs;

use semel_testserver::Postgres;

use crate::support::{Database, Ended, Setup, Upstream};

/// What a gateway on `url` says, and that it tells no password.
fn refused(url: &str) -> Ended {
    let ended = Setup::before_address(Upstream::absent(9)).on(url).refused();
    let password = url.split(['@', ':']).nth(2).expect("a password");
    assert!(!ended.err.contains(password), "{ended:?}");
    ended
}

#[test]
fn a_wrong_password_is_refused() {
    let server = Postgres::shared();
    let url = server.url().replace(server.password(), "a-wrong-password");
    refused(&url).assert_failed(1, &["password authentication failed", "check user and password"]);
}

#[test]
fn an_unknown_database_is_refused() {
    let url = Postgres::shared().url() + "_of_nobody";
    refused(&url).assert_failed(1, &["semel_of_nobody", "does not exist"]);
}

#[test]
fn a_database_without_tables_is_refused_until_it_is_migrated() {
    let database = Database::unmigrated(Postgres::shared());
    let missing = format!("there is no schema {}", database.schema());
    refused(database.url()).assert_failed(1, &[&missing, "semel migrate"]);
    assert_eq!(database.run_migrate(&[]).code, Some(0));
    Setup::before(&Upstream::start()).on(database.url()).start();
}

#[test]
fn a_database_of_an_earlier_version_is_refused_until_it_is_migrated() {
    let database = Database::shared();
    let schema = database.schema();
    let sql = format!("delete from {schema}.migration where version > 1");
    Postgres::shared().psql(&sql).expect("an earlier version");
    refused(database.url()).assert_failed(1, &["has version 1", "semel migrate"]);
}

#[test]
fn a_database_of_a_later_version_is_refused() {
    let database = Database::shared();
    let schema = database.schema();
    let sql = format!("insert into {schema}.migration values (999, 'later', 999)");
    Postgres::shared().psql(&sql).expect("a later version");
    refused(database.url()).assert_failed(1, &["has version 999", "update Semel"]);
}

#[test]
fn a_server_that_is_down_is_refused() {
    let absent = Upstream::absent(10);
    let url = format!("postgres://u:hunter2@{absent}/d");
    refused(&url).assert_failed(1, &["cannot be reached", "is the server up"]);
}

#[test]
fn a_server_that_forgets_is_refused() {
    let server = Postgres::options().setting("fsync", "off").start().expect("a server");
    let database = Database::on(&server);
    refused(database.url()).assert_failed(1, &["fsync = off", "set it to on"]);
}

#[test]
fn a_table_that_forgets_is_refused() {
    let database = Database::shared();
    let schema = database.schema();
    let sql = format!("alter table {schema}.record set unlogged");
    Postgres::shared().psql(&sql).expect("an unlogged table");
    refused(database.url()).assert_failed(1, &["is unlogged", "SET LOGGED"]);
}

#[test]
fn a_standby_is_refused() {
    let server = Postgres::start().expect("a server");
    let database = Database::on(&server);
    server.stop_fast().expect("a server to stop");
    fs::write(server.directory().join("data/standby.signal"), "").expect("a signal");
    server.start_again().expect("a standby");
    refused(database.url()).assert_failed(1, &["read-only", "name the primary"]);
}

/// And so is a certificate without a trusted issuer, if that was asked for.
#[test]
fn a_server_is_trusted_as_far_as_the_address_says() {
    let server = Postgres::options().tls().start().expect("a server with TLS");
    let database = Database::on(&server);
    let certificate = server.certificate().expect("a certificate").display().to_string();
    let upstream = Upstream::start();
    for good in
        ["sslmode=require".to_owned(), format!("sslmode=verify-full&sslrootcert={certificate}")]
    {
        Setup::before(&upstream).on(&format!("{}&{good}", database.url())).start();
    }
    refused(&format!("{}&sslmode=verify-full", database.url())).assert_failed(1, &["TLS"]);
    let plain = Database::shared();
    refused(&format!("{}&sslmode=require", plain.url())).assert_failed(1, &["TLS"]);
}
