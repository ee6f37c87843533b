//! The tables and functions in the database, and their versions.
//!
//! A migration is a file that is run once, in the order of the numbers, in one transaction with the row
//! that records it. Everything that an earlier version of Semel needs stays in place, so that a fleet can
//! be updated node by node: first `semel migrate`, then the nodes.

use tokio::time::timeout;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::Options;
use crate::connect::connect;
use crate::error::OpenError;
use crate::schema_name::SchemaName;
use crate::tls::{self, Connector};

/// The result of [`migrate`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version that was found; zero if there was none.
    pub from: i32,
    /// The version that is installed now.
    pub to: i32,
}

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
    /// The oldest known version with which a program can use this schema.
    needs: i32,
}

const MIGRATIONS: [Migration; 4] = [
    Migration { version: 1, name: "record", sql: include_str!("../sql/0001_record.sql"), needs: 1 },
    Migration {
        version: 2,
        name: "transaction",
        sql: include_str!("../sql/0002_transaction.sql"),
        needs: 1,
    },
    Migration {
        version: 3,
        name: "recovery",
        sql: include_str!("../sql/0003_recovery.sql"),
        needs: 1,
    },
    Migration { version: 4, name: "outbox", sql: include_str!("../sql/0004_outbox.sql"), needs: 1 },
];

/// The newest version that this program knows.
const KNOWN: i32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// The advisory lock of migrations: "Semel mi", as a number.
const MIGRATING: i64 = 0x5365_6d65_6c20_6d69;

/// The lock timeout of a migration, as a multiple of the verb timeout: 30 s by default.
const LOCK_TIMEOUT_FACTOR: u32 = 6;

/// Creates or upgrades the schema.
///
/// It can be run again, and from several nodes at once: one migrates and the others find it done. It
/// adds, and never deletes a record.
pub async fn migrate(options: &Options) -> Result<Migrated, OpenError> {
    let connector = tls::connector(&options.tls)?;
    let (mut client, connection) = connect(options, &connector).await?;
    let connection = tokio::spawn(connection);
    let limit = options.verb_timeout * LOCK_TIMEOUT_FACTOR * 2;
    let migrated = timeout(limit, run(&mut client, options)).await;
    connection.abort();
    migrated.unwrap_or_else(|_| Err(OpenError::timed_out(options, limit)))
}

async fn run(client: &mut Client, options: &Options) -> Result<Migrated, OpenError> {
    let failed = |error| OpenError::migration(options, error);
    // Whatever the default isolation is: after the wait for the lock, the work of others must be visible.
    let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let transaction = begin.read_only(false).start().await.map_err(failed)?;
    transaction.batch_execute(&lock_timeout(options)).await.map_err(failed)?;
    transaction.execute("SELECT pg_advisory_xact_lock($1)", &[&MIGRATING]).await.map_err(failed)?;
    let from = prepare(&transaction, &options.schema).await.map_err(failed)?;
    let mut to = from.version;
    from.usable(options)?;
    for migration in MIGRATIONS.iter().filter(|migration| migration.version > from.version) {
        apply(&transaction, &options.schema, migration).await.map_err(failed)?;
        to = migration.version;
    }
    transaction.commit().await.map_err(failed)?;
    Ok(Migrated { from: from.version, to })
}

/// A statement that waits for a table lock blocks all later ones, so the wait is short.
fn lock_timeout(options: &Options) -> String {
    let limit = options.verb_timeout * LOCK_TIMEOUT_FACTOR;
    format!("SET LOCAL lock_timeout = {}", limit.as_millis())
}

/// Creates the table of versions, and reads the current one.
async fn prepare(
    transaction: &Transaction<'_>,
    schema: &SchemaName,
) -> Result<SchemaVersion, tokio_postgres::Error> {
    let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    // Checked first: the owner of the schema need not have the right to create one.
    if transaction.query_opt(exists, &[&schema.as_str()]).await?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    transaction.batch_execute(&notes_sql(schema)).await?;
    let row = transaction.query_one(&versions_sql(schema), &[]).await?;
    Ok(SchemaVersion { version: row.try_get(0)?, needs: row.try_get(1)? })
}

async fn apply(
    transaction: &Transaction<'_>,
    schema: &SchemaName,
    migration: &Migration,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(&migration.sql_in(schema)).await?;
    let note = format!("INSERT INTO {schema}.migration (version, name, needs) VALUES ($1, $2, $3)");
    let Migration { version, name, needs, .. } = migration;
    transaction.execute(&note, &[version, name, needs]).await?;
    tracing::info!(%schema, version, name, "migrated");
    Ok(())
}

/// The script for `psql` that does what [`migrate`] does in a database without a schema.
///
/// It is one transaction. Where there is a schema already it fails and changes nothing.
pub fn migration_sql(options: &Options) -> String {
    let schema = &options.schema;
    let mut script = format!(
        "BEGIN;\nSELECT pg_advisory_xact_lock({MIGRATING});\nCREATE SCHEMA IF NOT EXISTS {schema};\n{};\n",
        notes_sql(schema)
    );
    for migration in &MIGRATIONS {
        let Migration { version, name, needs, .. } = migration;
        let sql = migration.sql_in(schema);
        let note = format!("({version}, '{name}', {needs})");
        script.extend(["\n", &sql, "\nINSERT INTO ", schema.as_str()]);
        script.extend([".migration (version, name, needs) VALUES ", &note, ";\n"]);
    }
    script.push_str("\nCOMMIT;\n");
    script
}

/// The table of migrations.
fn notes_sql(schema: &SchemaName) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    needs integer NOT NULL,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
)"
    )
}

fn versions_sql(schema: &SchemaName) -> String {
    format!("SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM {schema}.migration")
}

/// Checks that the server has what the store needs, and that its writes are durable.
pub(crate) async fn check(options: &Options, connector: &Connector) -> Result<(), OpenError> {
    let (client, connection) = connect(options, connector).await?;
    let connection = tokio::spawn(connection);
    let limit = options.verb_timeout;
    let checked = timeout(limit, check_with(&client, options)).await;
    connection.abort();
    checked.unwrap_or_else(|_| Err(OpenError::timed_out(options, limit)))
}

async fn check_with(client: &Client, options: &Options) -> Result<(), OpenError> {
    let failed = |error| OpenError::query(options, error);
    let schema = &options.schema;
    let row = client.query_one(&versions_sql(schema), &[]).await.map_err(failed)?;
    let versions = SchemaVersion { version: row.get(0), needs: row.get(1) };
    versions.usable(options)?;
    if versions.version < KNOWN {
        return Err(OpenError::SchemaOld {
            schema: schema.to_string(),
            found: versions.version,
            needed: KNOWN,
        });
    }
    let sql = format!(
        "SELECT current_setting('fsync'), c.relpersistence::text,
                pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean,
                current_setting('server_encoding')
         FROM pg_class c WHERE c.oid = '{schema}.record'::regclass"
    );
    let row = client.query_one(&sql, &[]).await.map_err(failed)?;
    let (fsync, persistence, read_only): (&str, &str, bool) = (row.get(0), row.get(1), row.get(2));
    if read_only {
        return Err(OpenError::ReadOnly { server: options.to_string() });
    }
    // Result ids are texts and may have any character.
    let encoding: &str = row.get(3);
    if !["UTF8", "SQL_ASCII"].contains(&encoding) {
        let what = format!("the database's encoding is {encoding}; it must be UTF8");
        return Err(OpenError::Server { server: options.to_string(), what });
    }
    if fsync != "on" {
        let what = "the server runs with fsync = off and loses records in a crash; set it to on";
        return Err(OpenError::NotDurable { what: what.to_owned() });
    }
    if persistence != "p" {
        let what = format!(
            "the table {schema}.record is unlogged and is emptied by a crash; \
             ALTER TABLE {schema}.record SET LOGGED"
        );
        return Err(OpenError::NotDurable { what });
    }
    Ok(())
}

struct SchemaVersion {
    version: i32,
    needs: i32,
}

// === impl SchemaVersion ===

impl SchemaVersion {
    /// Whether a later version changed the schema in a way that this one does not know.
    fn usable(&self, options: &Options) -> Result<(), OpenError> {
        if self.needs <= KNOWN {
            return Ok(());
        }
        let schema = options.schema.to_string();
        Err(OpenError::SchemaNewer { schema, found: self.version, known: KNOWN })
    }
}

// === impl Migration ===

impl Migration {
    fn sql_in(&self, schema: &SchemaName) -> String {
        self.sql.replace("{schema}", schema.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_without_gaps() {
        let versions: Vec<_> = MIGRATIONS.iter().map(|migration| migration.version).collect();
        assert_eq!(versions, (1..=KNOWN).collect::<Vec<_>>());
        assert!(MIGRATIONS.iter().all(|migration| migration.needs <= migration.version));
    }
}
