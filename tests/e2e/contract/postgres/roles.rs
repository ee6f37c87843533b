//! Roles: the guide's grants are sufficient and minimal.

use semel_testserver::Postgres;

use crate::support::{Call, Database, Reply, Setup, Upstream};

/// The statements of `docs/guides/postgres.md`.
const GUIDE: &str = include_str!("../../../../docs/guides/postgres.md");

/// A block of SQL of the guide, for roles and a schema of this test.
fn of_the_guide(first_line: &str, database: &Database) -> String {
    let (_, rest) = GUIDE.split_once(&format!("```sql\n{first_line}")).expect("a block");
    let (block, _) = rest.split_once("```").expect("its end");
    let schema = database.schema();
    format!("{first_line}{block}")
        .replace("semel_owner", &format!("{schema}_owner"))
        .replace("semel_gateway", &format!("{schema}_gateway"))
        .replace("DATABASE shop", "DATABASE semel")
        .replace("SCHEMA semel", &format!("SCHEMA {schema}"))
        .replace(" semel.", &format!(" {schema}."))
}

/// The database as another user sees it.
fn as_role(database: &Database, role: &str, password: &str) -> String {
    let schema = database.schema();
    let port = Postgres::shared().port();
    format!("postgres://{schema}_{role}:{password}@127.0.0.1:{port}/semel?schema={schema}")
}

fn without_schema(url: &str) -> &str {
    url.split_once('?').expect("a schema").0
}

#[test]
fn an_owner_migrates_and_a_lesser_role_serves() {
    let server = Postgres::shared();
    let database = Database::unmigrated(server);
    server.psql(&of_the_guide("CREATE ROLE semel_owner", &database)).expect("roles");
    let owner = as_role(&database, "owner", "OWNERS-PASSWORD");
    let gateway_role = as_role(&database, "gateway", "GATEWAYS-PASSWORD");

    let migrated = database.run_migrate(&["--store", &owner]);
    assert_eq!(migrated.code, Some(0), "{migrated:?}");
    let refused = Setup::before_address(Upstream::absent(13)).on(&gateway_role).refused();
    refused.assert_failed(1, &["permission denied"]);
    let grants = of_the_guide("GRANT USAGE ON SCHEMA semel", &database);
    server.psql_at(without_schema(&owner), &grants).expect("grants by the owner");

    // Every verb: claim, renew, settle, release, and the claim of a released record.
    let upstream = Upstream::with(|seen| match seen.execution {
        1 => Reply::new(503, ""),
        _ => Reply::created("{}"),
    });
    let gateway = Setup::before(&upstream).on(&gateway_role).start();
    assert_eq!(Call::charge("k").send(&gateway).status, 503);
    assert_eq!(Call::charge("k").send(&gateway).status, 201);
    assert!(Call::charge("k").send(&gateway).is_replay());
    let schema = database.schema();
    let as_gateway = |sql: String| server.psql_at(without_schema(&gateway_role), &sql);
    as_gateway(format!("select * from {schema}.sweep(10)")).expect("it may sweep");
    let seen = as_gateway(format!("select state, attempts from {schema}.records")).expect("a look");
    assert_eq!(seen, "completed|2");

    // It can neither change the schema nor make another.
    for forbidden in ["drop table {}.record", "create table {}.mine ()", "create schema {}_x"] {
        as_gateway(forbidden.replace("{}", schema)).expect_err(forbidden);
    }
    // And a migration by it fails without a trace.
    let refused = database.run_migrate(&["--store", &gateway_role]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    // What a later version adds is granted, too.
    let later =
        format!("create table {schema}.later (); create view {schema}.view as select 1 as one");
    server.psql_at(without_schema(&owner), &later).expect("a later version");
    as_gateway(format!("select * from {schema}.later; select one from {schema}.view"))
        .expect("a grant");
}
