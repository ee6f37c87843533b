use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use semel_core::{Fingerprint, RecordId, State};
use semel_store::{ReplayCache, SettledCopy, StoreError, StoreFuture, Watch};
use tokio::time::sleep;

use crate::Options;
use crate::answer::Answer;
use crate::error::{OpenError, corrupt};
use crate::notifications::Notifications;
use crate::script::{Arg, Call, SCRIPTS, Script, key};
use crate::topology::Topology;
use crate::value;

/// Copies of settled records in Redis, for a [`Tiered`](semel_store::Tiered) store whose primary is
/// elsewhere. It may lose them all, so nothing is asked of the servers' durability.
///
/// It connects by itself, and again: until then, and whenever the servers are away, there are no copies.
#[derive(Debug)]
pub struct RedisReplayCache {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: Options,
    open: OnceLock<Open>,
}

#[derive(Debug)]
struct Open {
    topology: Arc<Topology>,
    news: Arc<Notifications>,
}

/// [`Tiered`](semel_store::Tiered) waits for 100 ms.
const VERB_TIMEOUT: Duration = Duration::from_millis(80);
/// How long to wait before the servers are tried again.
const RETRY: Duration = Duration::from_secs(1);

// === impl RedisReplayCache ===

impl RedisReplayCache {
    /// Begins to connect. Needs a runtime.
    ///
    /// `primary` names the store whose records are copied, such as its address: copies of another are not
    /// found.
    pub fn connect(mut options: Options, primary: &str) -> Self {
        // Shorter than it is waited for, so that a server that is silent is noticed here.
        options.verb_timeout = VERB_TIMEOUT;
        // Not where a store on the same servers has its records.
        let name = Fingerprint::new([("truth", primary)]);
        let name = name.as_bytes()[..8].iter().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        let copies = format!("copy:{name:016x}:");
        options.address.prefix = options.address.prefix.followed_by(&copies);
        let shared = Arc::new(Shared { options, open: OnceLock::new() });
        tokio::spawn(connect(Arc::downgrade(&shared)));
        Self { shared }
    }
}

async fn connect(cache: Weak<Shared>) {
    let mut is_first = true;
    while let Some(shared) = cache.upgrade() {
        match Topology::connect(shared.options.clone()).await {
            Ok(topology) => {
                let news = Notifications::new(topology.clone());
                let _ = shared.open.set(Open { topology, news });
                return;
            }
            Err(error) if is_first => {
                tracing::warn!(%error, "replay cache unavailable; reading from the primary store");
            }
            Err(error) => tracing::debug!(%error, "replay cache unavailable"),
        }
        is_first = false;
        drop(shared);
        sleep(RETRY).await;
    }
}

// === impl Shared ===

impl Shared {
    fn open(&self) -> Result<&Open, StoreError> {
        let nobody = || {
            let (server, what) = (self.options.to_string(), "not connected yet".to_owned());
            StoreError::from(OpenError::Unreachable { server, what })
        };
        self.open.get().ok_or_else(nobody)
    }

    fn key(&self, id: RecordId) -> Vec<u8> {
        key(self.options.address.prefix.as_str(), id)
    }

    async fn ask(
        &self,
        verb: &'static str,
        script: &Script,
        id: RecordId,
        args: &[Arg<'_>],
    ) -> Result<redis::Value, StoreError> {
        let key = self.key(id);
        let call = Call { script, key: &key, confirm: false, args };
        let answer = self.open()?.topology.call(&call, 0).await;
        answer.map_err(|failed| failed.into_store_error(verb, &self.options))
    }
}

impl ReplayCache for RedisReplayCache {
    fn get(&self, id: RecordId) -> StoreFuture<'_, Option<SettledCopy>> {
        Box::pin(async move {
            let answer = self.shared.ask("get", &SCRIPTS.inspect, id, &[]).await?;
            let record = Answer::read(answer).and_then(Answer::found);
            let record = record.map_err(|damage| corrupt(id, &damage))?;
            Ok(record.and_then(|record| match record.state {
                State::Settled(settlement) => Some(SettledCopy {
                    fingerprint: record.fingerprint,
                    settlement,
                    expires: record.expires,
                }),
                State::Leased { .. } | State::Held | State::Released => None,
            }))
        })
    }

    fn put(&self, id: RecordId, copy: SettledCopy) -> StoreFuture<'_, ()> {
        Box::pin(async move {
            let (state, settled) = value::encode(&copy.settlement);
            let args = [
                Arg::Bytes(copy.fingerprint.as_bytes()),
                Arg::Number(copy.expires.as_millis()),
                Arg::Number(state.into()),
                Arg::Bytes(&settled),
            ];
            self.shared.ask("put", &SCRIPTS.keep, id, &args).await.map(drop)
        })
    }

    fn notify(&self, id: RecordId) -> StoreFuture<'_, ()> {
        Box::pin(
            async move { self.shared.ask("notify", &SCRIPTS.publish, id, &[]).await.map(drop) },
        )
    }

    fn watch(&self, id: RecordId) -> Option<Watch> {
        let open = self.shared.open.get()?;
        Some(open.news.watch(self.shared.key(id)))
    }

    fn shard(&self, id: RecordId) -> usize {
        self.shared.open.get().map_or(0, |open| open.topology.part(|| self.shared.key(id)))
    }
}
