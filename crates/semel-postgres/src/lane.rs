//! One connection to the server, made ready for verbs.

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
use crate::schema::Schema;
use crate::tls::Connector;

/// A connection that any number of verbs use at once: each is sent behind the others, without
/// waiting for their answers.
pub(crate) struct Lane {
    pub(crate) client: Client,
    pub(crate) statements: Statements,
    /// How many verbs wait for an answer on it.
    load: AtomicUsize,
    /// Somebody gave up waiting for an answer, and none has come since.
    suspect: AtomicBool,
    /// It was cut, though its client may not have noticed yet.
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

// === impl Lane ===

impl Lane {
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
                suspect: AtomicBool::new(false),
                retired: AtomicBool::new(false),
                driver,
                ending,
            }),
            Ok(Err(error)) => Err(OpenError::query(options, error)),
            Err(_) => {
                driver.abort();
                Err(OpenError::silent(options, options.verb_timeout))
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

    pub(crate) fn is_suspect(&self) -> bool {
        self.suspect.load(Ordering::Relaxed)
    }

    /// Returns what it was.
    pub(crate) fn set_suspect(&self, suspect: bool) -> bool {
        self.suspect.swap(suspect, Ordering::Relaxed)
    }

    /// Cuts the connection because answers on it are overdue. It is reset: a verb that is still on its way
    /// must not arrive after whoever sent it has given up.
    pub(crate) fn give_up(&self) {
        self.ending.reset();
        self.retire();
    }

    /// Cuts the connection: whoever still waits on it is told.
    pub(crate) fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
        self.driver.abort();
    }
}

impl fmt::Debug for Lane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lane").field("load", &self.load()).finish_non_exhaustive()
    }
}

// === impl Statements ===

impl Statements {
    /// Prepares all verbs, in about one round trip.
    async fn prepare(client: &Client, schema: &Schema) -> Result<Self, Error> {
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

/// What is settled needs no decision, and most claims that find a record find it settled: they cost
/// little more than a look at it. Everything else is for the function, which looks for itself.
///
/// The condition is there once: at the moment of expiry two could say different things.
fn claim_sql(schema: &Schema) -> String {
    format!(
        "SELECT CASE WHEN r.state >= 3 AND r.fingerprint = $2 AND r.expires > {schema}.now_ms()
                     THEN NULL
                     ELSE {schema}.claim($1, $2, $3, $4, $5, $6, r.id IS NOT NULL) END,
                r.expires, r.state, r.result, r.reply
         FROM (SELECT 1) one LEFT JOIN {schema}.record r ON r.id = $1"
    )
}

/// What the verbs rely on, whatever the server's defaults are, or will be: what is set in a session is
/// not changed by a reload. As statements, because a pooler in
/// between may not pass options on.
fn session(options: &Options) -> String {
    let limit = options.verb_timeout.as_millis().max(10);
    // The server gives up before we do, so that it can say for sure that nothing happened.
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
