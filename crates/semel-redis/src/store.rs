use std::sync::Arc;
use std::time::Duration;

use redis::Value;
use semel_core::{
    Attempt, Claim, Lease, OnAbandoned, Policy, Record, RecordId, Release, Settlement, Timestamp,
};
use semel_store::{
    Health, Released, Renewed, Settled, Store, StoreError, StoreFuture, Swept, Watch,
};

use crate::answer::Answer;
use crate::error::{Failed, corrupt};
use crate::findings::{DurabilityMonitor, refuse};
use crate::notifications::Notifications;
use crate::script::{Arg, Call, SCRIPTS, Script, key};
use crate::topology::Topology;
use crate::value::{self, HELD, RELEASED};
use crate::{Finding, OpenError, Options, findings};

/// Keeps records in Redis. Clones share their connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    topology: Arc<Topology>,
    notifications: Arc<Notifications>,
    monitor: Arc<DurabilityMonitor>,
}

/// Longer than any lease or retention: 30,000 years, which a script still counts exactly.
const MILLIS_MAX: u64 = 1_000_000_000_000_000;

// === impl Options ===

impl Options {
    /// Connects, and checks that the servers can be written to.
    pub async fn open(self) -> Result<RedisStore, OpenError> {
        RedisStore::open(Topology::connect(self).await?).await
    }
}

// === impl RedisStore ===

impl RedisStore {
    async fn open(topology: Arc<Topology>) -> Result<Self, OpenError> {
        let (notifications, monitor) = (Notifications::new(topology.clone()), Arc::default());
        let store = Self { topology, notifications, monitor };
        let findings = store.findings().await?;
        if store.topology.options().require_durable {
            refuse(findings.iter().filter(|finding| finding.is_grave()))?;
        }
        findings.iter().for_each(Finding::log);
        store.monitor.begin(&store.topology, &findings);
        store.monitor.keep_inspecting(&store.topology);
        Ok(store)
    }

    /// The risks of losing records, according to the servers' settings. Empty if there is none.
    pub async fn findings(&self) -> Result<Vec<Finding>, OpenError> {
        findings::inspect(&self.topology).await
    }

    /// Checks the servers that were promoted since the store was opened, if durability is required.
    async fn check_durable(&self) -> Result<(), OpenError> {
        let inspected = self.monitor.inspect(&self.topology).await;
        if !self.topology.options().require_durable {
            return Ok(());
        }
        self.monitor.refusal()?;
        inspected
    }

    /// Makes one verb's round trip.
    async fn decide(
        &self,
        verb: &'static str,
        script: &Script,
        id: RecordId,
        args: &[Arg<'_>],
    ) -> Result<Answer, StoreError> {
        let answer = self.send(script, id, args).await;
        let answer =
            answer.map_err(|failed| failed.into_store_error(verb, self.topology.options()))?;
        Answer::read(answer).map_err(|damage| corrupt(id, &damage))
    }

    async fn send(&self, script: &Script, id: RecordId, args: &[Arg<'_>]) -> Result<Value, Failed> {
        let options = self.topology.options();
        let key = key(options.address.prefix.as_str(), id);
        let call = Call { script, key: &key, confirm: options.wait_replicas > 0, args };
        self.topology.call(&call, options.wait_replicas).await
    }

    /// Claims on a server that has refused because its memory is full: everything except a new execution
    /// is answered.
    async fn claim_full(
        &self,
        id: RecordId,
        args: &[Arg<'_>],
        full: Failed,
    ) -> Result<Answer, StoreError> {
        let answer = self.decide("claim", &SCRIPTS.claim_full, id, args).await?;
        if answer.has_no_room() {
            return Err(full.into_store_error("claim", self.topology.options()));
        }
        Ok(answer)
    }
}

impl Store for RedisStore {
    fn claim<'a>(&'a self, attempt: &'a Attempt, policy: &'a Policy) -> StoreFuture<'a, Claim> {
        Box::pin(async move {
            let (id, fingerprint) = (attempt.id(), attempt.fingerprint());
            let args = [
                Arg::Bytes(fingerprint.as_bytes()),
                Arg::Bytes(&attempt.owner().as_u128().to_be_bytes()),
                millis(policy.lease()),
                millis(policy.ttl()),
                on_abandoned(policy.on_abandoned()),
            ];
            let answer = match self.send(&SCRIPTS.claim, id, &args).await {
                Ok(answer) => Answer::read(answer).map_err(|damage| corrupt(id, &damage))?,
                Err(full) if full.is_full() => Box::pin(self.claim_full(id, &args, full)).await?,
                Err(failed) => {
                    return Err(failed.into_store_error("claim", self.topology.options()));
                }
            };
            answer.claim(attempt).map_err(|damage| corrupt(id, &damage))
        })
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        Some(self.notifications.watch(key(self.topology.options().address.prefix.as_str(), id)))
    }

    fn shard(&self, id: RecordId) -> usize {
        let prefix = self.topology.options().address.prefix.as_str();
        self.topology.part(|| key(prefix, id))
    }

    fn renew<'a>(&'a self, lease: &'a Lease, duration: Duration) -> StoreFuture<'a, Renewed> {
        Box::pin(async move {
            let (fingerprint, owner) = (lease.fingerprint(), lease.owner().as_u128().to_be_bytes());
            let args = [
                Arg::Bytes(fingerprint.as_bytes()),
                Arg::Bytes(&owner),
                Arg::Number(lease.fence().get()),
                millis(duration),
            ];
            let answer = self.decide("renew", &SCRIPTS.renew, lease.id(), &args).await?;
            answer.renewed().map_err(|damage| corrupt(lease.id(), &damage))
        })
    }

    fn settle<'a>(&'a self, lease: &'a Lease, settlement: Settlement) -> StoreFuture<'a, Settled> {
        Box::pin(async move {
            let (fingerprint, owner) = (lease.fingerprint(), lease.owner().as_u128().to_be_bytes());
            let (state, settled) = value::encode(&settlement);
            let args = [
                Arg::Bytes(fingerprint.as_bytes()),
                Arg::Bytes(&owner),
                Arg::Number(lease.fence().get()),
                Arg::Number(state.into()),
                Arg::Bytes(&settled),
            ];
            let answer = self.decide("settle", &SCRIPTS.settle, lease.id(), &args).await?;
            let refused = answer.refusal().map_err(|damage| corrupt(lease.id(), &damage))?;
            Ok(refused.map_or(Settled::Recorded, Settled::Refused))
        })
    }

    fn release<'a>(&'a self, lease: &'a Lease, how: Release) -> StoreFuture<'a, Released> {
        Box::pin(async move {
            let (fingerprint, owner) = (lease.fingerprint(), lease.owner().as_u128().to_be_bytes());
            let state = match how {
                Release::Retry => RELEASED,
                Release::Hold => HELD,
            };
            let args = [
                Arg::Bytes(fingerprint.as_bytes()),
                Arg::Bytes(&owner),
                Arg::Number(lease.fence().get()),
                Arg::Number(state.into()),
            ];
            let answer = self.decide("release", &SCRIPTS.release, lease.id(), &args).await?;
            let refused = answer.refusal().map_err(|damage| corrupt(lease.id(), &damage))?;
            Ok(refused.map_or(Released::Done, Released::Refused))
        })
    }

    fn inspect(&self, id: RecordId) -> StoreFuture<'_, Option<Record>> {
        Box::pin(async move {
            let answer = self.decide("inspect", &SCRIPTS.inspect, id, &[]).await?;
            answer.found().map_err(|damage| corrupt(id, &damage))
        })
    }

    /// Nothing to do: the server deletes expired keys by itself.
    fn sweep(&self, _limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async { Ok(Swept { deleted: 0, more: false }) })
    }

    /// Checks that all servers can be written to, with as many replicas as `wait_replicas`, and are
    /// durable if that is required. A server whose memory is full serves its records, so it is healthy,
    /// with a note. The time is the latest of their clocks: what is not expired by that clock is not
    /// expired anywhere.
    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            let options = self.topology.options();
            let probed = self.topology.probe(options.wait_replicas).await;
            let answers = probed.map_err(|failed| failed.into_store_error("health", options))?;
            self.check_durable().await?;
            let clock = |answer| Answer::read(answer).and_then(|answer| answer.clock()).ok();
            let clocks: Option<Vec<Timestamp>> = answers.into_iter().map(clock).collect();
            let latest = clocks.and_then(|clocks| clocks.into_iter().max());
            let now = latest.ok_or_else(|| StoreError::Corrupt {
                what: "a server's clock shows no time".to_owned(),
            })?;
            Ok(Health { now, kind: "redis", note: self.topology.fullness().note() })
        })
    }
}

/// Rounded up, as the core does.
fn millis(duration: Duration) -> Arg<'static> {
    let millis = duration.as_nanos().div_ceil(1_000_000);
    Arg::Number(u64::try_from(millis).unwrap_or(MILLIS_MAX).min(MILLIS_MAX))
}

fn on_abandoned(what: OnAbandoned) -> Arg<'static> {
    Arg::Number(match what {
        OnAbandoned::Reexecute => 0,
        OnAbandoned::Fail => 1,
        OnAbandoned::Hold => 2,
    })
}
