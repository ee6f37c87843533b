//! One pipelined connection to the server, with the verbs prepared.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use semel_socket::Ending;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Error, Statement};

use crate::Options;
use crate::connect::connect_ending;
use crate::error::OpenError;
use crate::schema_name::SchemaName;
use crate::tls::Connector;

/// A pipelined connection that is shared by many verbs: each is sent without waiting for earlier answers.
pub(crate) struct Connection {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
    /// The number of verbs that wait for an answer.
    load: AtomicUsize,
    /// Set after a verb has timed out, until the next answer.
    stale_suspected: AtomicBool,
    /// Closed, though the client may not have noticed yet.
    retired: AtomicBool,
    driver: AbortHandle,
    ending: Ending,
}

/// The verbs, prepared.
pub(crate) struct Statements {
    pub(crate) claim: Statement,
    pub(crate) renew: Statement,
    pub(crate) settle: Statement,
    pub(crate) release: Statement,
    pub(crate) inspect: Statement,
    pub(crate) sweep: Statement,
    pub(crate) health: Statement,
}

// === impl Connection ===

impl Connection {
    /// Connects and prepares all verbs. The connection is driven on `runtime`.
    pub(crate) async fn open(
        options: &Options,
        connector: &Connector,
        runtime: &Handle,
    ) -> Result<Self, OpenError> {
        let ending = Ending::default();
        let (client, driver) = connect_ending(options, connector, &ending).await?;
        let driver = runtime.spawn(driver).abort_handle();
        let prepared = timeout(options.verb_timeout, async {
            client.batch_execute(&session(options)).await?;
            Statements::prepare(&client, &options.schema).await
        })
        .await;
        match prepared {
            Ok(Ok(statements)) => Ok(Self {
                client,
                statements,
                load: AtomicUsize::new(0),
                stale_suspected: AtomicBool::new(false),
                retired: AtomicBool::new(false),
                driver,
                ending,
            }),
            Ok(Err(error)) => Err(OpenError::query(options, error)),
            Err(_) => {
                driver.abort();
                Err(OpenError::timed_out(options, options.verb_timeout))
            }
        }
    }

    pub(crate) fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn enter(&self) {
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.load.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.retired.load(Ordering::Relaxed)
    }

    pub(crate) fn is_stale_suspected(&self) -> bool {
        self.stale_suspected.load(Ordering::Relaxed)
    }

    /// Returns the previous value.
    pub(crate) fn set_stale_suspected(&self, stale_suspected: bool) -> bool {
        self.stale_suspected.swap(stale_suspected, Ordering::Relaxed)
    }

    /// Closes the connection because answers are overdue. It is reset: a verb in transit must not arrive
    /// after its sender has given up.
    pub(crate) fn reset(&self) {
        self.ending.reset();
        self.retire();
    }

    /// Closes the connection: verbs that wait on it fail.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.driver.abort();
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("load", &self.load()).finish_non_exhaustive()
    }
}

// === impl Statements ===

impl Statements {
    /// Prepares all verbs, in about one round trip.
    async fn prepare(client: &Client, schema: &SchemaName) -> Result<Self, Error> {
        let settled = "expires, state, result, reply";
        let sql = |columns: &str, call: &str| format!("SELECT {columns} FROM {schema}.{call}");
        let claim = claim_sql(schema);
        let renew = sql(&format!("verdict, until, {settled}"), "renew($1,$2,$3,$4,$5)");
        let settle = sql(&format!("verdict, {settled}"), "settle($1,$2,$3,$4,$5,$6,$7)");
        let release = sql(&format!("verdict, {settled}"), "release($1,$2,$3,$4,$5)");
        let inspect = format!(
            "SELECT fingerprint, owner, created, fence, until, {settled}
             FROM {schema}.record WHERE id = $1 AND expires > {schema}.now_ms()"
        );
        let sweep = sql("deleted, more", "sweep($1)");
        let health = format!(
            "SELECT {schema}.now_ms(),
                    pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean"
        );
        let (claim, renew, settle, release, inspect, sweep, health) = tokio::try_join!(
            client.prepare(&claim),
            client.prepare(&renew),
            client.prepare(&settle),
            client.prepare(&release),
            client.prepare(&inspect),
            client.prepare(&sweep),
            client.prepare(&health),
        )?;
        Ok(Self { claim, renew, settle, release, inspect, sweep, health })
    }
}

/// A settled record needs no decision, and most claims that find a record find it settled: they cost
/// little more than a lookup. Everything else is decided by the function, which reads the record again.
///
/// The condition occurs only once: at the moment of expiry two copies could differ.
fn claim_sql(schema: &SchemaName) -> String {
    format!(
        "SELECT CASE WHEN r.state >= 3 AND r.fingerprint = $2 AND r.expires > {schema}.now_ms()
                     THEN NULL
                     ELSE {schema}.claim($1, $2, $3, $4, $5, $6, r.id IS NOT NULL) END,
                r.expires, r.state, r.result, r.reply
         FROM (SELECT 1) one LEFT JOIN {schema}.record r ON r.id = $1"
    )
}

/// The session settings that the verbs rely on. Settings of a session are not changed by a reload of the
/// server's configuration. They are statements because a pooler in between may not forward startup
/// options.
fn session(options: &Options) -> String {
    let limit = options.verb_timeout.as_millis().max(10);
    // The server's timeouts are shorter than ours, so that it can report reliably that nothing happened.
    let (statement, lock) = (limit * 4 / 5, limit * 3 / 5);
    format!(
        "SET statement_timeout = {statement};
         SET lock_timeout = {lock};
         SET idle_in_transaction_session_timeout = {limit};
         SET default_transaction_isolation = 'read committed';
         SET plan_cache_mode = force_generic_plan;
         SET enable_seqscan = off;
         SET jit = off;
         SELECT set_config('synchronous_commit', CASE
             WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
             ELSE current_setting('synchronous_commit') END, false)"
    )
}
