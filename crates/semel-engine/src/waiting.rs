//! What wakes a task that waits for the outcome of another execution: a notification of this process, a notification
//! of the store if it sends any, and a poll. Duplicates wait, and holders that have lost their lease.

use std::time::Duration;

use semel_store::Watch;
use tokio::time::{Instant, sleep_until};

use crate::answer::Caller;
use crate::backoff::Backoff;
use crate::context::EngineContext;
use crate::host::Host;
use crate::registry::{Listener, Notification};

/// The first pause before a poll, while few waiters of this process wait for the record.
const POLL_FIRST: Duration = Duration::from_millis(10);
/// The longest pause without notifications.
const POLL_MAX: Duration = Duration::from_millis(80);
/// The longest pause while notifications arrive: those of this process, which executes, or of the store. Polls then
/// only make up for lost notifications.
const POLL_MAX_SUBSCRIBED: Duration = Duration::from_secs(1);
/// The longest pause while notifications of the store arrive, but not from every process: a gateway that has only
/// the primary of a tiered store publishes none.
const POLL_MAX_SUBSCRIBED_PARTLY: Duration = Duration::from_millis(250);
/// The upper limit of a pause that grows with the number of waiters for the same record, which take turns.
const POLL_RARELY: Duration = Duration::from_secs(5);
/// The share of a pause for each waiter of this process, whatever its record: all of them together poll at most
/// about a thousand times a second.
const POLL_EACH: Duration = Duration::from_millis(1);
/// Over how long the polls of waiters that were woken together are spread: the first one publishes what it found.
const SPREAD_MAX: Duration = Duration::from_millis(250);

/// Why a waiter woke.
pub(crate) enum Wake {
    /// The time for a poll has come.
    Poll,
    /// An event of this process.
    Notification(Notification),
    /// The store reports that another process may have changed the record.
    StoreEvent,
    /// The deadline passed, the caller left or the engine is shutting down.
    Stop,
}

/// What can wake a waiter before its next poll.
pub(crate) struct WakeSources {
    listener: Listener,
    watch: Option<Watch>,
}

// === impl WakeSources ===

impl WakeSources {
    pub(crate) const fn new(listener: Listener, watch: Option<Watch>) -> Self {
        Self { listener, watch }
    }

    /// Sleeps until there is reason to read the record again, or to stop.
    pub(crate) async fn pause(
        &mut self,
        context: &EngineContext,
        caller: &mut Caller,
        deadline: Instant,
        poll_at: Instant,
    ) -> Wake {
        let Self { listener, watch } = self;
        let store_event = async {
            match watch {
                Some(watch) => watch.reason().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            notification = listener.recv() => Wake::Notification(notification),
            () = caller.left() => Wake::Stop,
            () = context.closing.cancelled() => Wake::Stop,
            () = sleep_until(deadline) => Wake::Stop,
            () = sleep_until(poll_at) => Wake::Poll,
            () = store_event => Wake::StoreEvent,
        }
    }

    /// The pauses between polls: short ones first, then long ones.
    pub(crate) fn polls(&self, context: &EngineContext) -> Backoff {
        let first = self.turns(context, POLL_FIRST);
        Backoff::new(first, self.longest_pause(context).max(first))
    }

    /// The longest pause that is short enough with the notifications that arrive at the moment.
    pub(crate) fn longest_pause(&self, context: &EngineContext) -> Duration {
        let executing_here = self.listener.is_held_here();
        let longest = match self.watch.as_ref().filter(|watch| watch.is_listening()) {
            _ if executing_here => POLL_MAX_SUBSCRIBED,
            Some(watch) if watch.is_complete() => POLL_MAX_SUBSCRIBED,
            Some(_) => POLL_MAX_SUBSCRIBED_PARTLY,
            None => POLL_MAX,
        };
        self.turns(context, longest)
    }

    /// The pause of each waiter, if a single one would pause for `alone`.
    fn turns(&self, context: &EngineContext, alone: Duration) -> Duration {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let of_record = count(self.listener.waiters().max(1));
        let all = count(context.waiters.taken());
        alone.saturating_mul(of_record).min(POLL_RARELY).max(POLL_EACH.saturating_mul(all))
    }

    /// A short random delay for waiters that were woken together and can be granted only one lease. It grows with
    /// their number.
    pub(crate) fn spread(&self, host: &dyn Host) -> Duration {
        let others = u64::try_from(self.listener.waiters().saturating_sub(1)).unwrap_or(u64::MAX);
        let longest = Duration::from_millis(others).min(SPREAD_MAX);
        host.between(Duration::ZERO, longest)
    }
}
