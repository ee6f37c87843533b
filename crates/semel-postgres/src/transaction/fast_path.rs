//! The fast path of a claim and a settle, as plain statements.
//!
//! Nearly always no decision in the database is needed: there is no record, or a settled one; and there
//! is one event, or none. Plain statements handle that for about half of the server's cost of the
//! functions, and leave everything else to the functions.
//!
//! Their plans are left to the server: forcing the index needs a session setting, and the session is
//! shared with the work.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::session::{ClaimReply, ClaimRequest, SettleRequest};
use super::with_tokio_postgres::{ClaimValues, SETTLE_TYPES, found};
use crate::schema_name::SchemaName;

/// The prepared statements of one connection.
pub(super) struct FastPath {
    lookup: Statement,
    record: Statement,
    record_with_event: Statement,
}

/// The number of parameters of a settle without and with an event.
const OF_RECORD: usize = 9;
const WITH_EVENTS: usize = 16;

/// The verdict of [`lookup_sql`] that leaves the decision to the function.
const UNDECIDED: i16 = 9;
const EXECUTE: i16 = 0;
const IN_FLIGHT: i16 = 2;

// === impl Usual ===

impl FastPath {
    pub(super) async fn prepare(client: &Client, schema: &SchemaName) -> Result<Self, Error> {
        let (lookup, record, event) = (lookup_sql(schema), record_sql(schema), event_sql(schema));
        let record_with_event = format!("WITH event AS ({event}) {record}");
        let (lookup, record, record_with_event) = tokio::try_join!(
            client.prepare_typed(&lookup, &[Type::BYTEA, Type::BYTEA]),
            client.prepare_typed(&record, &SETTLE_TYPES[..OF_RECORD]),
            client.prepare_typed(&record_with_event, &SETTLE_TYPES[..WITH_EVENTS]),
        )?;
        Ok(Self { lookup, record, record_with_event })
    }

    /// Begins a transaction, takes the lock and looks up the record, in one round trip. `None` leaves the
    /// claim to the function.
    pub(super) async fn claim(
        &self,
        client: &Client,
        begin: &str,
        request: &ClaimRequest,
    ) -> Result<Option<ClaimReply>, Error> {
        // Two statements: the second sees everything that was committed before the lock was taken. The
        // cast keeps the type for every number.
        let begin =
            format!("{begin}; SELECT pg_try_advisory_xact_lock('{}'::bigint)", request.lock);
        let values = ClaimValues::new(request);
        let [id, fingerprint, ..] = values.params();
        let lookup = async { found(&client.query_one(&self.lookup, &[id, fingerprint]).await?) };
        // Sent in this order, before any answer.
        let (locked, mut found) = tokio::try_join!(biased; client.simple_query(&begin), lookup)?;
        let waits = request.wait_ms > 0;
        Ok(match (found.verdict, is_locked(&locked)) {
            (UNDECIDED, _) => None,
            (EXECUTE, false) if waits => None,
            (EXECUTE, false) => {
                found.verdict = IN_FLIGHT;
                Some(found)
            }
            _ => Some(found),
        })
    }

    /// The statement that records an outcome, and its number of parameters. `None` leaves the settle to
    /// the function.
    pub(super) fn settle(&self, request: &SettleRequest<'_>) -> Option<(&Statement, usize)> {
        match (request.replaces, request.events.len()) {
            (None, 0) => Some((&self.record, OF_RECORD)),
            (None, 1) => Some((&self.record_with_event, WITH_EVENTS)),
            _ => None,
        }
    }
}

/// Whether the lock was granted.
fn is_locked(answer: &[SimpleQueryMessage]) -> bool {
    answer.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    })
}

/// Looks up the record, by the rules of `claim_in_transaction` for what needs no lock.
/// Outside the fast path the table is not read, whatever the plan is, because the condition is evaluated
/// first (OFFSET keeps it there): SERIALIZABLE would take the read for a conflict with a writer of a
/// neighbouring key.
fn lookup_sql(schema: &SchemaName) -> String {
    format!(
        "SELECT CASE
             WHEN NOT t.is_fast THEN {UNDECIDED}
             WHEN r.id IS NULL THEN {EXECUTE}
             WHEN r.expires <= t.now_ms THEN {UNDECIDED}
             WHEN r.fingerprint <> $2 THEN 3
             WHEN r.state >= 3 THEN 1
             ELSE {UNDECIDED}
         END::smallint, 1::bigint, NULL::bigint, t.now_ms, r.expires, r.state, r.result, r.reply, t.began
         FROM (SELECT {schema}.now_ms() AS now_ms, {schema}.transaction_began() AS began,
                      current_setting('transaction_isolation') = 'read committed'
                      AND current_setting('synchronous_commit') NOT IN ('off', 'local') AS is_fast
              ) t
         LEFT JOIN LATERAL (SELECT * FROM {schema}.record WHERE t.is_fast AND id = $1 OFFSET 0) r ON true"
    )
}

/// Records an outcome where there was no record. A conflicting record is an error: the commit may be in
/// transit already, and must fail.
fn record_sql(schema: &SchemaName) -> String {
    format!(
        "INSERT INTO {schema}.record
                (id, fingerprint, owner, fence, created, expires, until, state, result, reply)
         SELECT $1, $2, $3, $4, t.now_ms, t.now_ms + $6, t.now_ms, $7, $8, $9
         FROM (SELECT CASE $5 WHEN {schema}.transaction_began() THEN {schema}.now_ms()
                              ELSE {schema}.permit_ended() END AS now_ms) t
         ON CONFLICT (id) DO UPDATE SET state = {schema}.claimed_elsewhere()
         RETURNING expires"
    )
}

/// A single event, from arrays of one element.
fn event_sql(schema: &SchemaName) -> String {
    format!(
        "INSERT INTO {schema}.outbox (event, topic, key, headers, payload, type, not_before, record)
         VALUES (($10)[1], ($11)[1], ($12)[1], ($13)[1]::jsonb, ($14)[1], ($15)[1],
                 to_timestamp(($16)[1] / 1000.0), $1)"
    )
}
