//! The usual way through a claim and a settle, as plain statements.
//!
//! What happens nearly always needs no decision in the database: nothing is there, or something that is
//! settled; and there is one event, or none. Plain statements do that for about half of what a call of
//! the functions costs the server, and leave everything else to these.
//!
//! Their plans are left to the server: what would hold it to the index is a setting of the session, and
//! the session is the work's, too.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error, SimpleQueryMessage, Statement};

use super::session::{Asked, Found, Settling};
use super::with_tokio_postgres::{ClaimValues, SETTLE_TYPES, found};
use crate::schema::Schema;

/// The statements, prepared on one connection.
pub(super) struct Usual {
    look: Statement,
    record: Statement,
    record_and_tell: Statement,
}

/// How many parameters a settle has for the record, and how many with those of its event.
const OF_RECORD: usize = 9;
const WITH_EVENTS: usize = 14;

/// What [`look_sql`] says if the function has to be asked.
const ASK: i16 = 9;
const EXECUTE: i16 = 0;
const IN_FLIGHT: i16 = 2;

// === impl Usual ===

impl Usual {
    pub(super) async fn prepare(client: &Client, schema: &Schema) -> Result<Self, Error> {
        let (look, record, tell) = (look_sql(schema), record_sql(schema), tell_sql(schema));
        let record_and_tell = format!("WITH told AS ({tell}) {record}");
        let (look, record, record_and_tell) = tokio::try_join!(
            client.prepare_typed(&look, &[Type::BYTEA, Type::BYTEA]),
            client.prepare_typed(&record, &SETTLE_TYPES[..OF_RECORD]),
            client.prepare_typed(&record_and_tell, &SETTLE_TYPES[..WITH_EVENTS]),
        )?;
        Ok(Self { look, record, record_and_tell })
    }

    /// Begins a transaction, takes the lock and looks, in one round trip. `None` leaves the claim to the
    /// function.
    pub(super) async fn claim(
        &self,
        client: &Client,
        begin: &str,
        asked: &Asked,
    ) -> Result<Option<Found>, Error> {
        // Two statements: the second sees all that was committed before the lock was taken.
        // With its type, whatever the number.
        let begin = format!("{begin}; SELECT pg_try_advisory_xact_lock('{}'::bigint)", asked.lock);
        let values = ClaimValues::new(asked);
        let [id, fingerprint, ..] = values.params();
        let look = async { found(&client.query_one(&self.look, &[id, fingerprint]).await?) };
        // Sent in this order, before any answer.
        let (locked, mut found) = tokio::try_join!(biased; client.simple_query(&begin), look)?;
        let waits = asked.wait_ms > 0;
        Ok(match (found.verdict, is_true(&locked)) {
            (ASK, _) => None,
            (EXECUTE, false) if waits => None,
            (EXECUTE, false) => {
                found.verdict = IN_FLIGHT;
                Some(found)
            }
            _ => Some(found),
        })
    }

    /// What records an outcome, and how many parameters it has. `None` leaves the settle to the
    /// function.
    pub(super) fn settle(&self, settling: &Settling<'_>) -> Option<(&Statement, usize)> {
        match (settling.replaces, settling.events.len()) {
            (None, 0) => Some((&self.record, OF_RECORD)),
            (None, 1) => Some((&self.record_and_tell, WITH_EVENTS)),
            _ => None,
        }
    }
}

/// Is the one value of this answer true?
fn is_true(answer: &[SimpleQueryMessage]) -> bool {
    answer.iter().any(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0) == Some("t"),
        _ => false,
    })
}

/// Looks at the record, by the rules of `claim_in_transaction` for what needs no lock.
///
/// A transaction that must not look does not, whatever the plan, because the condition is asked before
/// the table is (OFFSET keeps it there): SERIALIZABLE would take it for a conflict with whoever writes
/// another key beside it.
fn look_sql(schema: &Schema) -> String {
    format!(
        "SELECT CASE
             WHEN NOT t.usual THEN {ASK}
             WHEN r.id IS NULL THEN {EXECUTE}
             WHEN r.expires <= t.now_ms THEN {ASK}
             WHEN r.fingerprint <> $2 THEN 3
             WHEN r.state >= 3 THEN 1
             ELSE {ASK}
         END::smallint, 1::bigint, NULL::bigint, t.now_ms, r.expires, r.state, r.result, r.reply, t.began
         FROM (SELECT {schema}.now_ms() AS now_ms, {schema}.transaction_began() AS began,
                      current_setting('transaction_isolation') = 'read committed'
                      AND current_setting('synchronous_commit') NOT IN ('off', 'local') AS usual
              ) t
         LEFT JOIN LATERAL (SELECT * FROM {schema}.record WHERE t.usual AND id = $1 OFFSET 0) r ON true"
    )
}

/// Records an outcome where nothing was. Whatever is in the way is an error: the commit may be on its way
/// already, and must fail.
fn record_sql(schema: &Schema) -> String {
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

/// The only event, from lists of one.
fn tell_sql(schema: &Schema) -> String {
    format!(
        "INSERT INTO {schema}.outbox (event, topic, key, headers, payload, record)
         VALUES (($10)[1], ($11)[1], ($12)[1], ($13)[1]::jsonb, ($14)[1], $1)"
    )
}
