//! Errors of opening a store, and migrations.

mod support;

use std::path::Path;
use std::time::Duration;

use semel_core::{Attempt, Claim, Fingerprint, Owner, Policy, RecordId, Reply, Settlement};
use semel_postgres::{Migrated, OpenError, Options, migrate};
use semel_store::{Store, StoreError};
use semel_testserver::Postgres;

use support::{connect, fresh_url, options, schema_of};

/// The error of opening a store at this address.
async fn refusal(options: Options) -> OpenError {
    options.open().await.map(drop).expect_err("it opened")
}

fn attempt(number: u8) -> Attempt {
    let id = RecordId::from_bytes([number; 32]);
    Attempt::new(id, Fingerprint::new([("body", "x")]), Owner::from_u128(number.into()))
}

/// Settles one record, to be found again later.
async fn record_one(store: &impl Store, number: u8) {
    let claim = store.claim(&attempt(number), &Policy::default()).await.expect("a claim");
    let Claim::Execute(lease) = claim else { panic!("{claim:?}") };
    let settlement = Settlement::Completed(Reply::new("kept"));
    store.settle(&lease, settlement).await.expect("a settle");
}

async fn assert_kept(store: &impl Store, number: u8) {
    let claim = store.claim(&attempt(number), &Policy::default()).await.expect("a claim");
    assert!(matches!(claim, Claim::Replay { .. }), "{claim:?}");
}

#[tokio::test]
async fn a_missing_schema_names_the_command() {
    let url = fresh_url();
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::SchemaMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("semel migrate"), "{error}");
}

#[tokio::test]
async fn migrating_twice_changes_nothing() {
    let url = fresh_url();
    let Migrated { from, to } = migrate(&options(&url)).await.expect("a schema");
    assert!(from == 0 && to > 0, "{from} {to}");
    let store = options(&url).open().await.expect("a store");
    record_one(&store, 1).await;
    assert_eq!(migrate(&options(&url)).await.expect("no change"), Migrated { from: to, to });
    assert_kept(&store, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_may_migrate_at_once() {
    let url = fresh_url();
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = url.clone();
        nodes.spawn(async move { migrate(&options(&url)).await.expect("a schema") });
    }
    let done = nodes.join_all().await;
    assert_eq!(done.iter().filter(|migrated| migrated.from == 0).count(), 1, "{done:?}");
    assert!(options(&url).open().await.is_ok());
}

/// As a fleet would be updated: the records of the old version are there in the new one.
#[tokio::test]
async fn an_older_schema_is_upgraded_and_keeps_its_records() {
    let url = fresh_url();
    let latest = migrate(&options(&url)).await.expect("a schema").to;
    record_one(&options(&url).open().await.expect("a store"), 2).await;
    let schema = schema_of(&url);
    let back = format!(
        "DROP TABLE {schema}.outbox;
         DO $$ DECLARE f regprocedure; BEGIN
             FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = '{schema}'::regnamespace
                      AND proname = 'settle_in_transaction'
             LOOP EXECUTE 'DROP FUNCTION ' || f; END LOOP;
         END $$;
         DROP FUNCTION {schema}.claim_in_transaction, {schema}.stage, {schema}.check_event,
                       {schema}.transaction_began, {schema}.permit_ended,
                       {schema}.claimed_elsewhere;
         DELETE FROM {schema}.migration WHERE version > 1"
    );
    connect(&url).await.batch_execute(&back).await.expect("an older schema");
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::SchemaOld { found: 1, .. }), "{error:?}");
    assert!(error.to_string().contains("semel migrate"), "{error}");
    let migrated = migrate(&options(&url)).await.expect("an upgrade");
    assert_eq!(migrated, Migrated { from: 1, to: latest });
    assert_kept(&options(&url).open().await.expect("a store"), 2).await;
}

#[tokio::test]
async fn a_newer_schema_is_used_as_far_as_it_allows() {
    let url = fresh_url();
    let latest = migrate(&options(&url)).await.expect("a schema").to;
    let note = |needs| {
        format!(
            "INSERT INTO {}.migration (version, name, needs) VALUES (99, 'later', {needs})
             ON CONFLICT (version) DO UPDATE SET needs = excluded.needs",
            schema_of(&url)
        )
    };
    let session = connect(&url).await;
    session.batch_execute(&note(latest)).await.expect("a note");
    assert!(options(&url).open().await.is_ok());
    session.batch_execute(&note(99)).await.expect("a note");
    for error in [refusal(options(&url)).await, migrate(&options(&url)).await.expect_err("newer")] {
        assert!(matches!(error, OpenError::SchemaNewer { found: 99, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn an_unlogged_table_is_refused() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let sql = format!("ALTER TABLE {}.record SET UNLOGGED", schema_of(&url));
    connect(&url).await.batch_execute(&sql).await.expect("an unlogged table");
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::NotDurable { .. }), "{error:?}");
    assert!(error.to_string().contains("SET LOGGED"), "{error}");
}

#[tokio::test]
async fn a_server_without_fsync_is_refused() {
    let server = Postgres::options().setting("fsync", "off").start().expect("a server");
    let open = Options::from_url(&server.url()).expect("an address");
    migrate(&open).await.expect("a schema");
    let error = refusal(open).await;
    assert!(matches!(error, OpenError::NotDurable { .. }), "{error:?}");
    assert!(error.to_string().contains("fsync"), "{error}");
}

#[tokio::test]
async fn a_rejected_login_names_the_reason() {
    let server = Postgres::shared();
    let secret = server.password();
    let base = server.url();
    for (url, message) in [
        (base.replace(secret, "hunter2"), "password authentication failed"),
        (base.replace("semel:", "nobody:"), "password authentication failed"),
        (base.replace(&format!(":{secret}"), ""), "asks for a password"),
    ] {
        let error = refusal(Options::from_url(&url).expect("an address")).await;
        let text = error.to_string();
        assert!(matches!(error, OpenError::Refused { .. }), "{error:?}");
        assert!(text.contains(message) && text.contains("PGPASSWORD"), "{text}");
        assert!(!text.contains(secret) && !text.contains("hunter2"), "{text}");
    }
}

#[tokio::test]
async fn a_database_that_does_not_exist() {
    let url = format!("{}_elsewhere", Postgres::shared().url());
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::DatabaseMissing { .. }), "{error:?}");
    assert!(error.to_string().contains("name of the database"), "{error}");
}

/// A role without rights runs the grants of the error, and then may do everything that a store does.
#[tokio::test]
async fn the_error_for_missing_rights_lists_the_grants() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    // A name that SQL takes in quotes only.
    let role = format!("poor-{}", schema_of(&url));
    let session = connect(&url).await;
    let make = format!("CREATE ROLE \"{role}\" LOGIN PASSWORD 'poor'");
    session.batch_execute(&make).await.expect("a role");
    let secret = Postgres::shared().password();
    let poor = url.replace(&format!("semel:{secret}"), &format!("{role}:poor"));
    let error = refusal(options(&poor)).await;
    let OpenError::Forbidden { cure, .. } = &error else { panic!("{error:?}") };
    let (_, grants) = cure.split_once("run: ").expect("what to run");
    session.batch_execute(grants).await.unwrap_or_else(|error| panic!("{grants}: {error}"));
    record_one(&options(&poor).open().await.expect("a store"), 1).await;

    let elsewhere = poor.replace("schema=", "schema=another_");
    let error = migrate(&options(&elsewhere)).await.expect_err("no right to");
    let OpenError::Forbidden { cure, .. } = &error else { panic!("{error:?}") };
    let (_, grants) = cure.split_once("run: ").expect("what to run");
    session.batch_execute(grants).await.unwrap_or_else(|error| panic!("{grants}: {error}"));
    migrate(&options(&elsewhere)).await.expect("a schema");
}

/// A migration does not wait for ever, and does not hold up others for ever.
#[tokio::test]
async fn a_migration_that_cannot_have_its_lock_gives_up() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let session = connect(&url).await;
    let lock = format!("BEGIN; LOCK TABLE {}.migration", schema_of(&url));
    session.batch_execute(&lock).await.expect("a lock");
    let timeout = Duration::from_millis(50);
    let error = migrate(&options(&url).verb_timeout(timeout)).await.expect_err("locked");
    assert!(matches!(error, OpenError::Locked { .. }), "{error:?}");
    session.batch_execute("ROLLBACK").await.expect("no lock");
    migrate(&options(&url)).await.expect("no change");
}

/// It accepts us, and then stops.
#[tokio::test]
async fn a_server_that_falls_silent() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let session = connect(&url).await;
    let lock = format!("BEGIN; LOCK TABLE {}.migration", schema_of(&url));
    session.batch_execute(&lock).await.expect("a lock");
    let error = refusal(options(&url).verb_timeout(Duration::from_millis(200))).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer within 200ms"), "{error}");
}

#[tokio::test]
async fn an_address_without_a_server() {
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().unwrap();
    let url = format!("postgres://u@{port}/d");
    let error = refusal(Options::from_url(&url).expect("an address")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
}

/// A server accepts the connection and sends nothing.
#[tokio::test]
async fn a_server_that_does_not_speak() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("postgres://u@{}/d?connect_timeout=1", listener.local_addr().unwrap());
    let error = refusal(Options::from_url(&url).expect("an address")).await;
    assert!(matches!(error, OpenError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("no answer within 1s"), "{error}");
}

/// One that accepts connections and is silent, as a frozen machine does, does not keep us from the next.
/// Nor does one that can only be read.
#[tokio::test]
async fn of_several_servers_the_right_one_is_found() {
    let unresponsive = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let unresponsive = unresponsive.local_addr().expect("an address");
    let server = Postgres::start().expect("a server");
    migrate(&options(&server.url())).await.expect("a schema");
    let here = format!("127.0.0.1:{}", server.port());
    let both =
        server.url().replace(&here, &format!("{unresponsive},{here}")) + "?connect_timeout=1";
    record_one(&options(&both).open().await.expect("a store"), 1).await;

    let standby = Postgres::start().expect("a server");
    for server in [&server, &standby] {
        let known_to_both = "CREATE ROLE app LOGIN SUPERUSER PASSWORD 'app'";
        server.psql(known_to_both).expect("a role");
    }
    make_standby(&standby);
    let both = format!("postgres://app:app@127.0.0.1:{},{here}/semel", standby.port());
    record_one(&options(&both).open().await.expect("a store"), 2).await;
}

/// Makes of a server what a failover makes of a primary that comes back.
fn make_standby(server: &Postgres) {
    let data = server.psql("SHOW data_directory").expect("a directory");
    server.stop_fast().expect("it stops");
    std::fs::write(Path::new(data.trim()).join("standby.signal"), "").expect("a standby");
    server.start_again().expect("it starts");
}

/// What an administrator sets later for the whole server does not reach sessions that are open.
#[tokio::test]
async fn durability_is_not_lost_by_a_reload() {
    let server = Postgres::start().expect("a server");
    migrate(&options(&server.url())).await.expect("a schema");
    let store = options(&server.url()).pool_max(1).open().await.expect("a store");
    for sql in [
        "ALTER SYSTEM SET synchronous_commit = off",
        // No other process writes the log for it.
        "ALTER SYSTEM SET wal_writer_delay = '10s'",
        "SELECT pg_reload_conf()",
    ] {
        server.psql(sql).expect("a reload");
    }
    // When the test's own session has the new setting, that of the store has been notified, too.
    while server.psql("SHOW synchronous_commit").expect("a setting").trim() != "off" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for number in 0..20 {
        record_one(&store, number).await;
    }
    server.kill().expect("it dies");
    server.start_again().expect("it starts");
    let kept = server.psql("SELECT count(*) FROM semel.record WHERE state = 3").expect("a number");
    assert_eq!(kept.trim(), "20", "acknowledged, and lost in a crash");
}

/// A migration that waited for the lock of another sees the other's work, whatever the default isolation
/// is.
#[tokio::test(flavor = "multi_thread")]
async fn many_nodes_may_migrate_at_once_under_any_isolation() {
    let server = Postgres::options()
        .setting("default_transaction_isolation", "serializable")
        .start()
        .expect("a server");
    let mut nodes = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let url = server.url();
        nodes.spawn(async move { migrate(&options(&url)).await.expect("a schema") });
    }
    let done = nodes.join_all().await;
    assert_eq!(done.iter().filter(|migrated| migrated.from == 0).count(), 1, "{done:?}");
}

#[tokio::test]
async fn a_database_of_another_encoding_is_refused() {
    let server = Postgres::shared();
    let name = format!("latin_{}", std::process::id());
    let make = format!("CREATE DATABASE {name} ENCODING 'LATIN1' TEMPLATE template0");
    server.psql(&make).expect("a database");
    let url = server.url();
    let url = format!("{}/{name}", url.strip_suffix("/semel").expect("its database"));
    migrate(&options(&url)).await.expect("a schema");
    let error = refusal(options(&url)).await;
    assert!(error.to_string().contains("LATIN1"), "{error}");
}

#[tokio::test]
async fn a_server_without_a_connection_left() {
    let server = Postgres::options()
        .setting("max_connections", "5")
        .setting("superuser_reserved_connections", "0")
        .setting("max_wal_senders", "0")
        .start()
        .expect("a server");
    let url = server.url();
    migrate(&options(&url)).await.expect("a schema");
    let store = options(&url).open().await.expect("a store");
    let mut others = Vec::new();
    while let Ok((client, connection)) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await
    {
        tokio::spawn(connection);
        others.push(client);
    }
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::TooManyConnections { .. }), "{error:?}");
    // What has a connection goes on with that one, however many ask at once.
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..50 {
        let store = store.clone();
        tasks.spawn(async move { record_one(&store, number).await });
    }
    tasks.join_all().await;
    drop(others);
}

#[tokio::test]
async fn tls_is_verified_when_asked_for() {
    let server = Postgres::options().tls().start().expect("a server with TLS");
    let certificate = server.certificate().expect("a certificate").display().to_string();
    let with = |query: &str| {
        let url = format!("{}?{query}", server.url());
        Options::from_url(&url).expect("an address").sweep_every(None)
    };
    migrate(&with("sslmode=require")).await.expect("a schema");
    for accepted in [
        "sslmode=prefer",
        "sslmode=require",
        &format!("sslmode=verify-full&sslrootcert={certificate}"),
    ] {
        let store = with(accepted).open().await.unwrap_or_else(|e| panic!("{accepted}: {e}"));
        store.health().await.expect("an answer");
        let encrypted = server
            .psql("SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE ssl AND application_name = 'semel'")
            .expect("an answer");
        assert_ne!(encrypted.trim(), "0", "{accepted}");
    }
    // The system's authorities have not signed it.
    let error = refusal(with("sslmode=verify-full")).await;
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
    // With TLS required, a server without TLS is never used in plain text.
    let plain = format!("{}?sslmode=require", Postgres::shared().url());
    let error = refusal(Options::from_url(&plain).expect("an address")).await;
    assert!(matches!(error, OpenError::Tls { .. }), "{error:?}");
}

/// The name in the certificate is looked at, too.
#[tokio::test]
async fn tls_for_another_name_is_refused() {
    let server = Postgres::options().tls().start().expect("a server with TLS");
    let certificate = server.certificate().expect("a certificate").display().to_string();
    // Another name for this machine than those in the certificate.
    let url = server.url().replace("127.0.0.1", "127.0.0.2");
    let url = format!("{url}?sslmode=verify-full&sslrootcert={certificate}");
    let error = refusal(Options::from_url(&url).expect("an address")).await;
    assert!(matches!(error, OpenError::Tls { .. } | OpenError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_read_only_server_is_refused_and_noticed_later() {
    let server = Postgres::start().expect("a server");
    let url = server.url();
    migrate(&options(&url)).await.expect("a schema");
    let store = options(&url).open().await.expect("a store");
    record_one(&store, 1).await;
    make_standby(&server);
    let error = refusal(options(&url)).await;
    assert!(matches!(error, OpenError::ReadOnly { .. }), "{error:?}");
    let error = store.health().await.expect_err("read-only");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    // What was recorded is still replayed; what would write is refused, and surely not done.
    assert_kept(&store, 1).await;
    let error = store.claim(&attempt(2), &Policy::default()).await.expect_err("read-only");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    assert!(error.to_string().contains("read-only"), "{error}");
    server.psql("SELECT pg_promote()").expect("a primary again");
    record_one(&store, 2).await;
}

#[tokio::test]
async fn a_slow_verb_times_out() {
    let url = fresh_url();
    migrate(&options(&url)).await.expect("a schema");
    let store =
        options(&url).verb_timeout(Duration::from_millis(500)).open().await.expect("a store");
    record_one(&store, 1).await;
    let session = connect(&url).await;
    let schema = schema_of(&url);
    session.batch_execute(&format!("BEGIN; LOCK TABLE {schema}.record")).await.expect("a lock");
    // The server reports that it gave up: nothing happened.
    let error = store.claim(&attempt(2), &Policy::default()).await.expect_err("locked");
    assert!(matches!(error, StoreError::Unavailable { .. }), "{error:?}");
    session.batch_execute("ROLLBACK").await.expect("no lock");
    record_one(&store, 2).await;
}
