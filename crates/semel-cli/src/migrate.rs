//! `semel migrate`.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use semel_gateway::config::{Flags, StoreChoice};
use semel_postgres::{Migrated, Options, migrate, migration_sql};

use crate::configuration::Sources;
use crate::exit::{Failure, print, say};

/// Creates or upgrades the tables and functions in PostgreSQL.
///
/// Run it once before the first gateway is started, and after an update of Semel before the gateways are updated. It can be run again, and from several machines at once: what is done is found done. No record is lost.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The configuration file that names the store [default: ./semel.toml, if there is one]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[arg(long, value_name = "URL", help = STORE)]
    store: Option<String>,
    /// Print the SQL that creates everything instead, without connecting to anything
    #[arg(long)]
    print: bool,
}

const STORE: &str =
    "The database: postgres://USER@HOST/DATABASE, with a role that may create a schema in it";

const AFTER_HELP: &str = "\
Examples:
  semel migrate --store postgres://owner@db.internal/shop
  PGPASSWORD=… semel migrate --config /etc/semel/semel.toml
  semel migrate --store postgres://owner@db.internal/shop --print | psql …

A password is better not on the command line, where others can see it: write it in the file, or set
SEMEL_STORE or PGPASSWORD.

Exit codes: 0 everything is there, 1 it failed and nothing was changed, 2 wrong usage or configuration.";

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let flags = Flags { store: arguments.store.clone(), ..Flags::default() };
    let sources = Sources::new(arguments.config.clone(), flags);
    say(sources.named());
    let store = sources.store().map_err(|unusable| Failure::Wrong(unusable.to_string()))?;
    let address = match &store {
        StoreChoice::Postgres(address) => Some(address),
        #[cfg(feature = "redis")]
        StoreChoice::Tiered { truth, .. } => Some(truth),
        _ => None,
    };
    let Some(address) = address else {
        return Err(Failure::Wrong(format!(
            "error: `store` is {store}, and only PostgreSQL needs migrating\n    \
             cure: name the database with --store postgres://USER@HOST/DATABASE, SEMEL_STORE or the file"
        )));
    };
    let options = address.options();
    if arguments.print {
        return print(&migration_sql(options));
    }
    say(format!("semel: migrating {options}"));
    let migrated = connected(options)?;
    print(&done(options.schema(), migrated))
}

fn connected(options: &Options) -> anyhow::Result<Migrated> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime cannot be started")?;
    // The message has the cause in it already.
    runtime.block_on(migrate(options)).map_err(|error| anyhow!("{error}"))
}

fn done(schema: &str, Migrated { from, to }: Migrated) -> String {
    if from == to {
        format!("schema {schema}: already at version {to}\n")
    } else {
        format!("schema {schema}: version {from} -> {to}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn applied_migrations_are_reported() {
        assert_eq!(done("s", Migrated { from: 0, to: 2 }), "schema s: version 0 -> 2\n");
        assert_eq!(done("s", Migrated { from: 2, to: 2 }), "schema s: already at version 2\n");
    }
}
