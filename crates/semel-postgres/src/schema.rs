//! The tables and functions in the database, and their versions.
//!
//! A migration is a file that is run once, in the order of their numbers, in one transaction with
//! the note that it was run. What an earlier version of Semel needs stays in place, so that a fleet
//! can be updated node by node: first `semel migrate`, then the nodes.

use std::fmt;

use sha2::{Digest as _, Sha256};
use tokio::time::timeout;
use tokio_postgres::{Client, IsolationLevel, Transaction};

use crate::Options;
use crate::connect::connect;
use crate::error::OpenError;
use crate::tls::{self, Connector};
use crate::url::UrlError;

/// The name of the schema that everything lies in. It is put into SQL as it is, so it is nothing
/// but letters, digits and underscores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schema(String);

/// What [`migrate`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migrated {
    /// The version that was found; zero if there was none.
    pub from: i32,
    /// The version that is there now.
    pub to: i32,
}

struct Migration {
    version: i32,
    name: &'static str,
    sql: &'static str,
    /// The oldest version of the schema that a program must have been written for to use this one.
    needs: i32,
}

const MIGRATIONS: [Migration; 3] = [
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
];

/// The version that this code was written for.
const KNOWN: i32 = MIGRATIONS[MIGRATIONS.len() - 1].version;

/// Under this lock one node migrates at a time: "Semel mi", as a number.
const MIGRATING: i64 = 0x5365_6d65_6c20_6d69;

/// By how much longer than a verb a migration waits for a lock: 30 s by default.
const MIGRATION_PATIENCE: u32 = 6;

/// Creates or upgrades the schema.
///
/// It can be run again, and from several nodes at once: one does the work and the others find it
/// done. It adds, and never deletes a record.
pub async fn migrate(options: &Options) -> Result<Migrated, OpenError> {
    let connector = tls::connector(&options.tls)?;
    let (mut client, connection) = connect(options, &connector).await?;
    let connection = tokio::spawn(connection);
    let limit = options.verb_timeout * MIGRATION_PATIENCE * 2;
    let migrated = timeout(limit, run(&mut client, options)).await;
    connection.abort();
    migrated.unwrap_or_else(|_| Err(OpenError::silent(options, limit)))
}

async fn run(client: &mut Client, options: &Options) -> Result<Migrated, OpenError> {
    let failed = |error| OpenError::migration(options, error);
    // Whatever the default is: who waited for the lock must see what was done meanwhile.
    let begin = client.build_transaction().isolation_level(IsolationLevel::ReadCommitted);
    let transaction = begin.read_only(false).start().await.map_err(failed)?;
    transaction.batch_execute(&patience(options)).await.map_err(failed)?;
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

/// Whoever waits for a lock on a table makes everybody wait who comes later: not for long, then.
fn patience(options: &Options) -> String {
    let limit = options.verb_timeout * MIGRATION_PATIENCE;
    format!("SET LOCAL lock_timeout = {}", limit.as_millis())
}

/// Makes the place where versions are noted, and reads the present one.
async fn prepare(
    transaction: &Transaction<'_>,
    schema: &Schema,
) -> Result<Found, tokio_postgres::Error> {
    let exists = "SELECT 1 FROM pg_namespace WHERE nspname = $1";
    // Asked first: who owns the schema need not be allowed to create one.
    if transaction.query_opt(exists, &[&schema.0]).await?.is_none() {
        transaction.batch_execute(&format!("CREATE SCHEMA {schema}")).await?;
    }
    transaction.batch_execute(&notes_sql(schema)).await?;
    let row = transaction.query_one(&found_sql(schema), &[]).await?;
    Ok(Found { version: row.try_get(0)?, needs: row.try_get(1)? })
}

async fn apply(
    transaction: &Transaction<'_>,
    schema: &Schema,
    migration: &Migration,
) -> Result<(), tokio_postgres::Error> {
    transaction.batch_execute(&migration.sql_in(schema)).await?;
    let note = format!("INSERT INTO {schema}.migration (version, name, needs) VALUES ($1, $2, $3)");
    let Migration { version, name, needs, .. } = migration;
    transaction.execute(&note, &[version, name, needs]).await?;
    tracing::info!(%schema, version, name, "migrated");
    Ok(())
}

/// What [`migrate`] does where there is no schema yet, as a script for `psql`.
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

/// The table of what was done.
fn notes_sql(schema: &Schema) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {schema}.migration (
    version integer PRIMARY KEY,
    name text NOT NULL,
    needs integer NOT NULL,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
)"
    )
}

fn found_sql(schema: &Schema) -> String {
    format!("SELECT coalesce(max(version), 0), coalesce(max(needs), 0) FROM {schema}.migration")
}

/// Checks that the server has what the store needs, and will keep what it is given.
pub(crate) async fn check(options: &Options, connector: &Connector) -> Result<(), OpenError> {
    let (client, connection) = connect(options, connector).await?;
    let connection = tokio::spawn(connection);
    let limit = options.verb_timeout;
    let checked = timeout(limit, check_with(&client, options)).await;
    connection.abort();
    checked.unwrap_or_else(|_| Err(OpenError::silent(options, limit)))
}

async fn check_with(client: &Client, options: &Options) -> Result<(), OpenError> {
    let failed = |error| OpenError::query(options, error);
    let schema = &options.schema;
    let row = client.query_one(&found_sql(schema), &[]).await.map_err(failed)?;
    let found = Found { version: row.get(0), needs: row.get(1) };
    found.usable(options)?;
    if found.version < KNOWN {
        return Err(OpenError::SchemaOld {
            schema: schema.to_string(),
            found: found.version,
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
    // The names of results are texts, and any character may be in one.
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

struct Found {
    version: i32,
    needs: i32,
}

// === impl Found ===

impl Found {
    /// Was the schema changed by a later version, in a way that this one cannot know?
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
    fn sql_in(&self, schema: &Schema) -> String {
        self.sql.replace("{schema}", &schema.0)
    }
}

// === impl Schema ===

impl Schema {
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn parse(name: String) -> Result<Self, UrlError> {
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_';
        let starts_well = name.bytes().next().is_some_and(|c| !c.is_ascii_digit());
        // 63 bytes is the longest name that PostgreSQL keeps, and "pg_" is its own.
        if starts_well && name.len() <= 63 && name.bytes().all(plain) && !name.starts_with("pg_") {
            return Ok(Self(name));
        }
        let cure = "a schema is named by lower-case letters, digits and underscores";
        Err(UrlError::Parameter { name: "schema", value: name, cure })
    }
}

impl Schema {
    /// A number that tells it apart from other schemas.
    pub(crate) fn salt(&self) -> i64 {
        let hash = Sha256::digest(self.0.as_bytes());
        hash.iter().take(8).fold(0, |bits, byte| bits << 8 | i64::from(*byte))
    }
}

impl Default for Schema {
    fn default() -> Self {
        Self("semel".to_owned())
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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

    #[test]
    fn a_schema_is_a_plain_name() {
        for good in ["semel", "_a1", "a"] {
            assert!(Schema::parse(good.to_owned()).is_ok(), "{good}");
        }
        for bad in ["", "1a", "a.b", "a\"b", "a'b", "A", "a b", "pg_x", &"a".repeat(64)] {
            assert!(Schema::parse(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
