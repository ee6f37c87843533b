use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use semel_core::{Lease, Record, RecordId, Timestamp};
use semel_store::{Store, StoreError, StoreFuture};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::host::Host;
use crate::limits::Slots;
use crate::lines::Lines;
use crate::outage::Outages;
use crate::registry::Registry;
use crate::{Limits, Quotas};

/// The state that all attempts of one engine share.
pub(crate) struct EngineContext {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
    pub(crate) executions: Slots,
    pub(crate) waiters: Slots,
    pub(crate) quotas: Quotas,
    pub(crate) registry: Arc<Registry>,
    pub(crate) host: Box<dyn Host>,
    pub(crate) lines: Arc<Lines>,
    outages: Outages,
    /// Cancelled when the shutdown begins.
    pub(crate) closing: CancellationToken,
    /// The attempts that the shutdown waits for.
    pub(crate) tasks: TaskTracker,
}

// === impl EngineContext ===

impl EngineContext {
    /// The longest pause between two tries of a verb that a lease depends on. While a holder pauses, another
    /// process may be granted a lease that has run out.
    pub(crate) const RETRY_MAX: Duration = Duration::from_secs(1);

    pub(crate) fn new(store: impl Store, limits: Limits, host: impl Host) -> Self {
        Self {
            store: Arc::new(store),
            limits,
            executions: Slots::new(limits.executions_max),
            waiters: Slots::new(limits.waiters_max),
            quotas: Quotas::default(),
            registry: Arc::default(),
            host: Box::new(host),
            lines: Arc::default(),
            outages: Outages::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
        }
    }

    /// Reads the record, with a timeout.
    pub(crate) async fn inspect(
        &self,
        id: RecordId,
        limit: Duration,
    ) -> Result<Option<Record>, StoreError> {
        self.within(limit, "inspect", id, self.store.inspect(id)).await
    }

    /// Runs one call of a verb, which counts as timed out after `limit`: a store that hangs does not make the
    /// engine hang (trap 14).
    pub(crate) async fn within<T>(
        &self,
        limit: Duration,
        verb: &str,
        id: RecordId,
        mut call: StoreFuture<'_, T>,
    ) -> Result<T, StoreError> {
        let shard = self.store.shard(id);
        // The timer is set only once there is something to wait for: a store in this process mostly answers at
        // once. It is boxed, since it is large and every future that makes a call would have room for it.
        let mut timer = None;
        let answer = poll_fn(|cx| {
            if let Poll::Ready(answer) = call.as_mut().poll(cx) {
                return Poll::Ready(answer);
            }
            let timer = timer.get_or_insert_with(|| Box::pin(sleep(limit)));
            timer.as_mut().poll(cx).map(|()| Err(StoreError::deadline(verb, limit)))
        })
        .await;
        self.outages.note(shard, &answer);
        answer
    }

    /// Pauses before a verb is tried again. The pause ends early when the record's shard is reachable again.
    pub(crate) async fn rest(&self, id: RecordId, pause: Duration) {
        // Both results end the pause.
        let _ = timeout(pause, self.outages.end(self.store.shard(id))).await;
    }
}

/// The lease that a record holds until `until`.
pub(crate) const fn lease_in(id: RecordId, record: &Record, until: Timestamp) -> Lease {
    Lease::new(id, record.fingerprint, record.fence, record.owner, until, record.expires)
}
