//! `semel migrate`.

use semel_testserver::Postgres;

use crate::support::{Call, Database, Ended, Setup, Upstream, at_once, semel};

fn unmigrated() -> Database {
    Database::unmigrated(Postgres::shared())
}

#[test]
fn migrations_are_reported_and_run_once() {
    let database = unmigrated();
    let schema = database.schema();
    let first = database.run_migrate(&[]);
    assert_eq!(first.code, Some(0), "{first:?}");
    let version = first.out.strip_prefix(&format!("schema {schema}: version 0 -> "));
    let version = version.unwrap_or_else(|| panic!("{first:?}")).trim_end();
    assert!(first.err.contains("semel: migrating postgres://semel@127.0.0.1"), "{first:?}");
    let second = database.run_migrate(&[]);
    assert_eq!(second.out, format!("schema {schema}: already at version {version}\n"));
    for said in [first, second] {
        assert!(!said.err.contains(Postgres::shared().password()), "{said:?}");
    }
}

/// A fleet whose every node migrates when it is started.
#[test]
fn many_at_once_do_it_once() {
    let database = unmigrated();
    let ended = at_once(6, |_| database.run_migrate(&[]));
    assert!(ended.iter().all(|one| one.code == Some(0)), "{ended:?}");
    assert_eq!(ended.iter().filter(|one| one.out.contains("version 0 -> ")).count(), 1);
    assert_eq!(ended.iter().filter(|one| one.out.contains("already at version")).count(), 5);
}

#[test]
fn a_repeated_migration_keeps_records_and_running_gateways() {
    let database = Database::shared();
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).on(database.url()).limits("cache_bytes = 0").start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    assert_eq!(database.run_migrate(&[]).code, Some(0));
    assert!(Call::charge("k").send(&gateway).is_replay());
}

/// What is printed does the same when it is run by hand.
#[test]
fn printed_migrations_match_the_executed_ones() {
    let database = unmigrated();
    let printed = database.run_migrate(&["--print"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    Postgres::shared().psql(&printed.out).expect("SQL");
    let ended = database.run_migrate(&[]);
    assert!(ended.out.contains("already at version"), "{ended:?}");
    let upstream = Upstream::start();
    let gateway = Setup::before(&upstream).on(database.url()).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    // By hand again: nothing changes.
    Postgres::shared().psql(&printed.out).expect_err("it is there already");
    assert!(Call::charge("k").send(&gateway).is_replay());
}

#[test]
fn printing_needs_no_server() {
    let url = format!("postgres://u:hunter2@{}/d?schema=elsewhere", Upstream::absent(11));
    let printed = Ended::of(&mut semel(&["migrate", "--print", "--store", &url]));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.contains("CREATE TABLE elsewhere.record"), "{}", printed.out);
    assert!(!printed.out.contains("{schema}") && !printed.out.contains("hunter2"));
}

/// The store of the file is migrated, and an upstream is none of its business.
#[test]
fn migrate_reads_the_configuration_file() {
    let database = unmigrated();
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("other.toml");
    std::fs::write(&file, format!("store = \"{}\"\n", database.url())).expect("a file");
    let ended = Ended::of(semel(&["migrate", "--config"]).arg(&file));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    std::fs::write(&file, format!("stoer = \"{}\"\n", database.url())).expect("a file");
    let ended = Ended::of(semel(&["migrate", "--config"]).arg(&file));
    assert_eq!((ended.code, ended.out.as_str()), (Some(2), ""), "{ended:?}");
    assert!(ended.err.contains("did you mean `store`?"), "{ended:?}");
    assert!(!ended.err.contains(Postgres::shared().password()), "{ended:?}");
}

#[test]
fn other_stores_have_nothing_to_migrate() {
    for store in ["memory:", "embedded:./nowhere"] {
        let ended = Ended::of(&mut semel(&["migrate", "--store", store]));
        ended.assert_failed(2, &[store, "only PostgreSQL needs migrating"]);
        assert!(
            ended.err.contains("cure: name the database with --store postgres://"),
            "{ended:?}"
        );
    }
}

#[test]
fn an_unreachable_server_is_reported() {
    let url = format!("postgres://u:hunter2@{}/d", Upstream::absent(12));
    let ended = Ended::of(&mut semel(&["migrate", "--store", &url]));
    ended.assert_failed(1, &["cannot be reached", "is the server up"]);
    assert!(!ended.err.contains("hunter2"), "{ended:?}");
}
