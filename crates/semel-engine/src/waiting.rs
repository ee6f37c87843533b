//! Those who wait for the outcome of another execution: duplicates, and holders who lost their
//! lease. They are woken by news from this process and by polling across nodes.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Claim, InFlight, State, Timestamp};
use semel_store::StoreError;
use tokio::time::{Instant, sleep, sleep_until};

use crate::Answer;
use crate::answer::Caller;
use crate::backoff::Backoff;
use crate::detached::Errand;
use crate::engine::Shared;
use crate::registry::{Listener, News};
use crate::renewal::Tenure;

const POLL_FIRST: Duration = Duration::from_millis(10);
/// The longest pause between two polls while another node executes.
const POLL_MAX: Duration = Duration::from_millis(250);
/// The same while this process executes: its news are the rule, and polling is for the case that
/// its lease was lost.
const POLL_MAX_LOCAL: Duration = Duration::from_secs(1);

/// Why a waiter woke.
enum Wake {
    /// The time for a poll has come.
    Poll,
    /// Something happened in this process.
    News(News),
    /// The deadline passed, the caller left or the engine is shutting down.
    Stop,
}

impl Errand {
    /// Waits for the outcome of the execution that is in flight, until `deadline`, or for its lease
    /// to become free.
    ///
    /// It polls with the attempt's own claim: if the holder released or abandoned the record, the
    /// waiter is granted the next lease. That is all it can do: it has nothing to write with
    /// (trap 8). A store that fails for a while does not end the wait, and never makes a waiter
    /// execute without protection: it knows that another execution was in flight.
    pub(crate) async fn wait(
        &mut self,
        mut listener: Listener,
        mut until: Timestamp,
        deadline: Instant,
    ) -> Result<Claim, StoreError> {
        let shared = Arc::clone(self.claimant.shared());
        let Some(_waiter) = shared.waiters.take() else {
            return Ok(Claim::InFlight { until });
        };
        if !listener.start_waiting(shared.limits.waiters_per_record_max) {
            return Ok(Claim::InFlight { until });
        }
        let mut polls = Backoff::new(POLL_FIRST, POLL_MAX);
        loop {
            // An attempt that may hold a lease unheard still counts as running.
            if !self.claimant.is_in_doubt() {
                self.slot = None;
            }
            match pause(&shared, &mut self.caller, &mut listener, deadline, &mut polls).await {
                Wake::Stop => return Ok(Claim::InFlight { until }),
                Wake::News(News::Settled { fingerprint, settlement, expires })
                    if fingerprint == self.claimant.fingerprint() =>
                {
                    return Ok(Claim::Replay { settlement, expires });
                }
                Wake::News(_) => sleep(spread(&listener, deadline)).await,
                Wake::Poll => {}
            }
            match self.poll().await {
                Ok(Some(Claim::InFlight { until: seen })) => until = seen,
                Ok(Some(claim)) => return Ok(claim),
                Ok(None) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Claims once, if a slot is free for the execution that this may become.
    async fn poll(&mut self) -> Result<Option<Claim>, StoreError> {
        if self.slot.is_none() {
            self.slot = self.claimant.shared().executions.take();
        }
        match self.slot {
            Some(_) => self.claimant.claim_now().await.map(Some),
            None => Ok(None),
        }
    }
}

/// What a holder answers whose lease another has taken: what a duplicate would be told, never its
/// own outcome (I4). It only looks: a claim could make it execute a second time.
///
/// `None` if the record is gone, or belongs to another request by now.
pub(crate) async fn fenced_off(tenure: &Tenure, caller: &mut Caller) -> Option<Answer> {
    let (shared, lease) = (tenure.shared(), tenure.lease());
    let deadline = match tenure.policy().in_flight() {
        InFlight::Wait(timeout) => Instant::now() + timeout,
        InFlight::Conflict | InFlight::Accepted => Instant::now(),
    };
    let mut until = lease.until();
    let mut listener = shared.registry.listen(lease.id());
    let mut polls = Backoff::new(POLL_FIRST, POLL_MAX);
    loop {
        let call = shared.store.inspect(lease.id());
        if let Ok(record) = Shared::within(tenure.verb_timeout(), "inspect", call).await {
            let record = record.filter(|record| record.fingerprint == lease.fingerprint())?;
            match record.state {
                State::Leased { until: seen } => until = seen,
                State::Released => return Some(Answer::InFlight { until }),
                State::Held => return Some(Answer::Unknown { reply: None }),
                State::Settled(settlement) => {
                    return Some(Answer::Replayed { settlement, expires: record.expires });
                }
            }
        }
        let over = Instant::now() >= deadline || !caller.is_waiting();
        if over
            || matches!(
                pause(shared, caller, &mut listener, deadline, &mut polls).await,
                Wake::Stop
            )
        {
            return Some(Answer::InFlight { until });
        }
    }
}

/// Sleeps until there is reason to look again, or to stop.
async fn pause(
    shared: &Shared,
    caller: &mut Caller,
    listener: &mut Listener,
    deadline: Instant,
    polls: &mut Backoff,
) -> Wake {
    let (executing_here, _) = listener.company();
    polls.set_cap(if executing_here { POLL_MAX_LOCAL } else { POLL_MAX });
    tokio::select! {
        biased;
        news = listener.hear() => Wake::News(news),
        () = caller.left() => Wake::Stop,
        () = shared.closing.cancelled() => Wake::Stop,
        () = sleep_until(deadline) => Wake::Stop,
        () = sleep(polls.pause()) => Wake::Poll,
    }
}

/// A short random delay for those who were all woken at once and can be granted only one lease: the
/// more they are, the further they spread.
fn spread(listener: &Listener, deadline: Instant) -> Duration {
    let (_, waiters) = listener.company();
    let others = u64::try_from(waiters.saturating_sub(1)).unwrap_or(u64::MAX);
    let longest = Duration::from_millis(others).min(POLL_MAX);
    let left = deadline.saturating_duration_since(Instant::now());
    crate::backoff::jittered(Duration::ZERO, longest).min(left)
}
