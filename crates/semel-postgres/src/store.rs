use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Refusal, Release, Settlement};
use semel_store::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept};
use tokio::time::{Instant, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use crate::error::{spoils_lane, verb_failed};
use crate::lane::Statements;
use crate::lanes::Lanes;
use crate::row::{self, Fenced, Hidden, OwnerParam, SettlementParams, corrupt};
use crate::sweeper::Sweeper;
use crate::{OpenError, Options, schema, tls};

/// Keeps records in PostgreSQL. Clones share their connections.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    lanes: Arc<Lanes>,
    /// Ends with the last clone.
    _sweeper: Option<Arc<Sweeper>>,
}

type Param<'a> = &'a (dyn ToSql + Sync);

// === impl PostgresStore ===

impl PostgresStore {
    pub(crate) async fn open(options: Options) -> Result<Self, OpenError> {
        let connector = tls::connector(&options.tls)?;
        let sweep_every = options.sweep_every;
        schema::check(&options, &connector).await?;
        let lanes = Arc::new(Lanes::open(options, connector).await?);
        let sweeper = sweep_every.map(|rest| Arc::new(Sweeper::start(&lanes, rest)));
        Ok(Self { lanes, _sweeper: sweeper })
    }
}

// === impl Lanes ===

impl Lanes {
    /// Makes one verb's round trip. `None` if the statement gave no row.
    pub(crate) async fn ask(
        &self,
        verb: &'static str,
        statement: fn(&Statements) -> &Statement,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, StoreError> {
        let limit = self.options().verb_timeout;
        let deadline = Instant::now() + limit;
        let Ok(booked) = timeout_at(deadline, self.book()).await else {
            let what = format!("no connection to {} within {limit:?}", self.options());
            return Err(StoreError::unavailable(what));
        };
        let mut booked = booked?;
        let asked = booked.client.query_opt(statement(&booked.statements), params);
        match timeout_at(deadline, asked).await {
            Ok(Ok(row)) => {
                booked.answered();
                Ok(row)
            }
            Ok(Err(error)) => {
                booked.answered();
                if spoils_lane(&error) {
                    booked.retire();
                }
                Err(verb_failed(verb, &self.options().schema, error))
            }
            // The server gives up earlier than we do, so perhaps it is not heard any more. Whether it
            // is will be asked: others may still get their answers on this connection.
            Err(_) => Err(StoreError::deadline(verb, limit)),
        }
    }

    /// The same for a function, which always gives a row.
    async fn call(
        &self,
        verb: &'static str,
        statement: fn(&Statements) -> &Statement,
        params: &[Param<'_>],
    ) -> Result<Row, StoreError> {
        let row = self.ask(verb, statement, params).await?;
        row.ok_or_else(|| StoreError::Corrupt { what: format!("{verb} gave no row") })
    }

    pub(crate) async fn sweep(&self, limit: usize) -> Result<Swept, StoreError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let row = self.call("sweep", |s| &s.sweep, &[&limit]).await?;
        let (deleted, more): (i32, bool) = (row.get(0), row.get(1));
        Ok(Swept { deleted: usize::try_from(deleted).unwrap_or(0), more })
    }
}

/// A fenced write whose answer has `expires, state, result, reply` from `settled` on.
fn fenced<T>(
    lease: &Lease,
    row: &Row,
    settled: usize,
    done: impl FnOnce() -> Result<T, row::Damage>,
    refused: fn(Refusal) -> T,
) -> Result<T, StoreError> {
    let answer = match row::fenced(row, settled) {
        Ok(Fenced::Done) => done(),
        Ok(Fenced::Refused(refusal)) => Ok(refused(refusal)),
        Err(damage) => Err(damage),
    };
    answer.map_err(|damage| corrupt(lease.id(), &damage))
}

impl Store for PostgresStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            let id = attempt.id();
            let fingerprint = attempt.fingerprint();
            let params: [Param<'_>; 6] = [
                &Hidden(id.as_bytes()),
                &Hidden(fingerprint.as_bytes()),
                &OwnerParam(attempt.owner()),
                &row::millis(policy.lease()),
                &row::millis(policy.ttl()),
                &row::on_abandoned(policy.on_abandoned()),
            ];
            let row = self.lanes.call("claim", |s| &s.claim, &params).await?;
            let claim = row::claim(&row, attempt).map_err(|damage| corrupt(id, &damage))?;
            match claim {
                Claim::Execute(_) => self.lanes.has_committed(),
                _ => self.lanes.has_read(),
            }
            Ok(claim)
        })
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(async move {
            let (id, fingerprint) = (lease.id(), lease.fingerprint());
            let params: [Param<'_>; 5] = [
                &Hidden(id.as_bytes()),
                &Hidden(fingerprint.as_bytes()),
                &OwnerParam(lease.owner()),
                &row::fence_param(lease.fence()),
                &row::millis(duration),
            ];
            let row = self.lanes.call("renew", |s| &s.renew, &params).await?;
            self.lanes.has_committed();
            let done = || {
                Ok(Renewed::Until { until: row::moment(&row, 1)?, expires: row::moment(&row, 2)? })
            };
            fenced(lease, &row, 2, done, Renewed::Refused)
        })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let (id, fingerprint) = (lease.id(), lease.fingerprint());
            let outcome = SettlementParams::new(&settlement);
            let params: [Param<'_>; 7] = [
                &Hidden(id.as_bytes()),
                &Hidden(fingerprint.as_bytes()),
                &OwnerParam(lease.owner()),
                &row::fence_param(lease.fence()),
                &outcome.state,
                &outcome.result,
                &outcome.reply,
            ];
            let row = self.lanes.call("settle", |s| &s.settle, &params).await?;
            self.lanes.has_committed();
            fenced(lease, &row, 1, || Ok(Settled::Recorded), Settled::Refused)
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let (id, fingerprint) = (lease.id(), lease.fingerprint());
            let params: [Param<'_>; 5] = [
                &Hidden(id.as_bytes()),
                &Hidden(fingerprint.as_bytes()),
                &OwnerParam(lease.owner()),
                &row::fence_param(lease.fence()),
                &row::release_state(how),
            ];
            let row = self.lanes.call("release", |s| &s.release, &params).await?;
            self.lanes.has_committed();
            fenced(lease, &row, 1, || Ok(Released::Done), Released::Refused)
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let params: [Param<'_>; 1] = [&Hidden(id.as_bytes())];
            let row = self.lanes.ask("inspect", |s| &s.inspect, &params).await?;
            let record = row.as_ref().map(row::record).transpose();
            record.map_err(|damage| corrupt(id, &damage))
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.lanes.sweep(limit))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            let row = self.lanes.call("health", |s| &s.health, &[]).await?;
            if row.get(1) {
                let error = OpenError::ReadOnly { server: self.lanes.options().to_string() };
                return Err(error.into());
            }
            let now = row::moment(&row, 0);
            let now = now.map_err(|damage| StoreError::Corrupt { what: damage.to_string() })?;
            Ok(Health { now, kind: "postgres", note: None })
        })
    }
}
