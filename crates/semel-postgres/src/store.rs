use std::sync::Arc;
use std::time::Duration;

use semel_core::{Attempt, Claim, Lease, Policy, Record, RecordId, Refusal, Release, Settlement};
use semel_store::{Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept};
use tokio_postgres::Row;

use crate::pool::{Param, Pool};
use crate::row::{self, Fenced, Hidden, OwnerParam, SettlementParams, corrupt};
use crate::sweeper::Sweeper;
use crate::{OpenError, Options, schema, tls};

/// Keeps records in PostgreSQL. Clones share their connections.
#[derive(Clone, Debug)]
pub struct PostgresStore {
    pool: Arc<Pool>,
    /// Ends with the last clone.
    _sweeper: Option<Arc<Sweeper>>,
}

// === impl PostgresStore ===

impl PostgresStore {
    async fn open(options: Options) -> Result<Self, OpenError> {
        let connector = tls::connector(&options.tls)?;
        let sweep_every = options.sweep_every;
        schema::check(&options, &connector).await?;
        let pool = Arc::new(Pool::open(options, connector).await?);
        let sweeper = sweep_every.map(|rest| Arc::new(Sweeper::start(&pool, rest)));
        Ok(Self { pool, _sweeper: sweeper })
    }
}

// === impl Options ===

impl Options {
    /// Connects, and checks the schema and the durability of the server.
    pub async fn open(self) -> Result<PostgresStore, OpenError> {
        PostgresStore::open(self).await
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
            let row = self.pool.call("claim", |s| &s.claim, &params).await?;
            let claim = row::claim(&row, attempt).map_err(|damage| corrupt(id, &damage))?;
            match claim {
                Claim::Execute(_) => self.pool.note_committed(),
                _ => self.pool.note_read(),
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
            let row = self.pool.call("renew", |s| &s.renew, &params).await?;
            self.pool.note_committed();
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
            let row = self.pool.call("settle", |s| &s.settle, &params).await?;
            self.pool.note_committed();
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
            let row = self.pool.call("release", |s| &s.release, &params).await?;
            self.pool.note_committed();
            fenced(lease, &row, 1, || Ok(Released::Done), Released::Refused)
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let params: [Param<'_>; 1] = [&Hidden(id.as_bytes())];
            let row = self.pool.query("inspect", |s| &s.inspect, &params).await?;
            let record = row.as_ref().map(row::record).transpose();
            record.map_err(|damage| corrupt(id, &damage))
        })
    }

    fn sweep(&self, limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(self.pool.sweep(limit))
    }

    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            let row = self.pool.call("health", |s| &s.health, &[]).await?;
            if row.get(1) {
                let error = OpenError::ReadOnly { server: self.pool.options().to_string() };
                return Err(error.into());
            }
            let now = row::moment(&row, 0);
            let now = now.map_err(|damage| StoreError::Corrupt { what: damage.to_string() })?;
            Ok(Health { now, kind: "postgres", note: None })
        })
    }
}
