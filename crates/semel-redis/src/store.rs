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
use crate::findings::{Lookout, refuse};
use crate::news::News;
use crate::script::{Arg, Call, SCRIPTS, Script, key};
use crate::topology::Topology;
use crate::value::{self, HELD, RELEASED};
use crate::{Finding, OpenError, findings};

/// Keeps records in Redis. Clones share their connections.
#[derive(Clone, Debug)]
pub struct RedisStore {
    topology: Arc<Topology>,
    news: Arc<News>,
    lookout: Arc<Lookout>,
}

/// Longer than anything lasts: 30,000 years, which a script still counts exactly.
const MILLIS_MAX: u64 = 1_000_000_000_000_000;

// === impl RedisStore ===

impl RedisStore {
    pub(crate) async fn open(topology: Arc<Topology>) -> Result<Self, OpenError> {
        let (news, lookout) = (News::new(topology.clone()), Arc::default());
        let store = Self { topology, news, lookout };
        let findings = store.findings().await?;
        if store.topology.options().require_durable {
            refuse(findings.iter().filter(|finding| finding.is_grave()))?;
        }
        findings.iter().for_each(Finding::say);
        store.lookout.begin(&store.topology, &findings);
        store.lookout.keep_looking(&store.topology);
        Ok(store)
    }

    /// How the servers may lose records, as far as their settings say. Nothing if they keep what they
    /// were given.
    pub async fn findings(&self) -> Result<Vec<Finding>, OpenError> {
        findings::look(&self.topology).await
    }

    /// Those who took over since the store was opened are as durable as it is required.
    async fn check_durable(&self) -> Result<(), OpenError> {
        let looked = self.lookout.look(&self.topology).await;
        if !self.topology.options().require_durable {
            return Ok(());
        }
        self.lookout.refusal()?;
        looked
    }

    /// Makes one verb's round trip.
    async fn decide(
        &self,
        verb: &'static str,
        script: &Script,
        id: RecordId,
        args: &[Arg<'_>],
    ) -> Result<Answer, StoreError> {
        let answer = self.ask(script, id, args).await;
        let answer =
            answer.map_err(|failed| failed.into_store_error(verb, self.topology.options()))?;
        Answer::read(answer).map_err(|damage| corrupt(id, &damage))
    }

    async fn ask(&self, script: &Script, id: RecordId, args: &[Arg<'_>]) -> Result<Value, Failed> {
        let options = self.topology.options();
        let key = key(options.address.prefix.as_str(), id);
        let call = Call { script, key: &key, confirm: options.wait_replicas > 0, args };
        self.topology.call(&call, options.wait_replicas).await
    }

    /// Claims on a server that has refused to because its memory is full: all but a new execution is
    /// answered.
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
            let answer = match self.ask(&SCRIPTS.claim, id, &args).await {
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
        Some(self.news.watch(key(self.topology.options().address.prefix.as_str(), id)))
    }

    fn part(&self, id: RecordId) -> usize {
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

    /// There is nothing to do: the server deletes what has expired by itself.
    fn sweep(&self, _limit: usize) -> StoreFuture<'_, Swept> {
        Box::pin(async { Ok(Swept { deleted: 0, more: false }) })
    }

    /// All servers can be written to, with as many replicas as are waited for, and are durable if they must
    /// be. One whose memory is full serves what it has, so it is well, and noted. And the latest of their clocks: what is not expired by that one is not expired anywhere.
    fn health(&self) -> StoreFuture<'_, Health> {
        Box::pin(async move {
            let options = self.topology.options();
            let looked = self.topology.look(options.wait_replicas).await;
            let answers = looked.map_err(|failed| failed.into_store_error("health", options))?;
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
