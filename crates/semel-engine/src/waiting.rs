//! Those who wait for the outcome of another execution: duplicates, and holders who lost their
//! lease. They are woken by news from this process, by those of the store if it tells any, and by polling.

use std::sync::Arc;
use std::time::Duration;

use semel_core::{Claim, InFlight, State, Timestamp};
use semel_planted::{Bug, planted};
use semel_store::{StoreError, Watch};
use tokio::time::{Instant, sleep_until};

use crate::Answer;
use crate::answer::Caller;
use crate::backoff::Backoff;
use crate::detached::Errand;
use crate::engine::Shared;
use crate::host::Host;
use crate::registry::{Listener, News, Source};
use crate::renewal::Tenure;

/// The first pause before a poll by those who wait for a record in this process, if they are few.
const POLL_FIRST: Duration = Duration::from_millis(10);
/// The longest.
const POLL_MAX: Duration = Duration::from_millis(80);
/// The longest while news are to be heard: those of this process, which executes, or of the store. Polling
/// is for the case that they get lost.
const POLL_MAX_HEARING: Duration = Duration::from_secs(1);
/// The longest while news of the store are to be heard, but not from everybody: a gateway that has only the
/// truth of a tiered store tells nobody.
const POLL_MAX_HEARING_SOME: Duration = Duration::from_millis(250);
/// Those who wait for the same record take turns: the more they are, the longer each pauses, up to this.
const POLL_RARELY: Duration = Duration::from_secs(5);
/// By how much each pauses for each who waits for anything in this process: so all of them together poll
/// about a thousand times a second, and not more.
const POLL_EACH: Duration = Duration::from_millis(1);
/// Over how long those are spread who all heard at once that it is worth a look: the first tells the
/// others what it found.
const SPREAD_MAX: Duration = Duration::from_millis(250);

/// Why a waiter woke.
enum Wake {
    /// The time for a poll has come.
    Poll,
    /// Something happened in this process.
    News(News),
    /// Something may have happened elsewhere.
    Reason,
    /// The deadline passed, the caller left or the engine is shutting down.
    Stop,
}

/// What a waiter listens to.
struct Ears {
    listener: Listener,
    watch: Option<Watch>,
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
        let began = Instant::now();
        let watch = shared.store.watch(self.claimant.id());
        let mut ears = Ears { listener, watch };
        let mut polls = ears.polls(&shared);
        let mut look_at = before(&*shared.host, deadline, polls.pause(&*shared.host));
        loop {
            // An attempt that may hold a lease unheard still counts as running.
            if !self.claimant.is_in_doubt() {
                self.slot = None;
            }
            match ears.pause(&shared, &mut self.caller, deadline, look_at).await {
                Wake::Stop => {
                    if planted(Bug::WaiterDeletesTheClaim) {
                        self.release_anothers_lease().await;
                    }
                    return Ok(Claim::InFlight { until });
                }
                Wake::News(News::Settled { fingerprint, settlement, expires, source })
                    if fingerprint == self.claimant.fingerprint()
                        && self.is_of_this_life(began, until, expires, source) =>
                {
                    return Ok(Claim::Replay { settlement, expires });
                }
                // Soon, but not all at once.
                Wake::News(_) | Wake::Reason => {
                    look_at = look_at.min(Instant::now() + ears.spread(&*shared.host));
                    continue;
                }
                Wake::Poll => {}
            }
            match self.poll().await {
                Ok(Some(Claim::InFlight { until })) if self.claimant.is_used_up() => {
                    return Ok(Claim::InFlight { until });
                }
                Ok(Some(Claim::InFlight { until: seen })) => until = seen,
                Ok(Some(claim)) => {
                    self.share(&claim);
                    return Ok(claim);
                }
                Ok(None) => {}
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error),
            }
            polls.set_cap(ears.longest_pause(&shared));
            look_at = before(&*shared.host, deadline, polls.pause(&*shared.host));
        }
    }

    /// Whether news are of the life that is waited for: they may be late, and the record may have expired since.
    ///
    /// A record outlives its leases, so what expires before the lease that was seen is an earlier life. An attempt
    /// that joined has seen no lease in the store: only what the store was asked for since it waits counts.
    fn is_of_this_life(
        &self,
        began: Instant,
        until: Timestamp,
        expires: Timestamp,
        source: Source,
    ) -> bool {
        match source {
            Source::Duplicate { asked } if self.claimant.has_joined() => began <= asked,
            Source::Holder if self.claimant.has_joined() => false,
            Source::Duplicate { .. } | Source::Holder => until <= expires,
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

    /// Spares the others who wait here the question.
    pub(crate) fn share(&self, claim: &Claim) {
        if let Claim::Replay { settlement, expires } = claim {
            let (settlement, expires) = (settlement.clone(), *expires);
            let fingerprint = self.claimant.fingerprint();
            let Some(asked) = self.claimant.sent() else { return };
            let source = Source::Duplicate { asked };
            let news = News::Settled { fingerprint, settlement, expires, source };
            self.claimant.shared().registry.tell(self.claimant.id(), news);
        }
    }
}

/// After a pause; but everybody looks once before the deadline, and not all of them at its end.
fn before(host: &dyn Host, deadline: Instant, pause: Duration) -> Instant {
    let now = Instant::now();
    let left = deadline.saturating_duration_since(now);
    now + if pause < left { pause } else { host.between(left / 2, left) }
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
    let listener = shared.registry.listen(lease.id());
    // Who does not wait hears nothing.
    let waits = deadline > Instant::now();
    let watch = if waits { shared.store.watch(lease.id()) } else { None };
    let mut ears = Ears { listener, watch };
    let mut polls = ears.polls(shared);
    loop {
        let call = shared.store.inspect(lease.id());
        if let Ok(record) = shared.within(tenure.verb_timeout(), "inspect", lease.id(), call).await
        {
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
        if Instant::now() >= deadline || !caller.is_waiting() {
            return Some(Answer::InFlight { until });
        }
        polls.set_cap(ears.longest_pause(shared));
        let look_at = Instant::now() + polls.pause(&*shared.host);
        if let Wake::Stop = ears.pause(shared, caller, deadline, look_at).await {
            return Some(Answer::InFlight { until });
        }
    }
}

// === impl Ears ===

impl Ears {
    /// Sleeps until there is reason to look again, or to stop.
    async fn pause(
        &mut self,
        shared: &Shared,
        caller: &mut Caller,
        deadline: Instant,
        look_at: Instant,
    ) -> Wake {
        let Self { listener, watch } = self;
        let reason = async {
            match watch {
                Some(watch) => watch.reason().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            news = listener.hear() => Wake::News(news),
            () = caller.left() => Wake::Stop,
            () = shared.closing.cancelled() => Wake::Stop,
            () = sleep_until(deadline) => Wake::Stop,
            () = sleep_until(look_at) => Wake::Poll,
            () = reason => Wake::Reason,
        }
    }

    /// First often, then rarely.
    fn polls(&self, shared: &Shared) -> Backoff {
        let first = self.turns(shared, POLL_FIRST);
        Backoff::new(first, self.longest_pause(shared).max(first))
    }

    /// How rarely it is enough to look.
    fn longest_pause(&self, shared: &Shared) -> Duration {
        let executing_here = self.listener.company().0;
        let longest = match self.watch.as_ref().filter(|watch| watch.is_listening()) {
            _ if executing_here => POLL_MAX_HEARING,
            Some(watch) if watch.hears_all() => POLL_MAX_HEARING,
            Some(_) => POLL_MAX_HEARING_SOME,
            None => POLL_MAX,
        };
        self.turns(shared, longest)
    }

    /// The pause of each, if it is to be `alone` for one who waits alone.
    fn turns(&self, shared: &Shared, alone: Duration) -> Duration {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let company = count(self.listener.company().1.max(1));
        let all = count(shared.waiters.taken());
        alone.saturating_mul(company).min(POLL_RARELY).max(POLL_EACH.saturating_mul(all))
    }

    /// A short random delay for those who were all woken at once and can be granted only one lease: the
    /// more they are, the further they spread.
    fn spread(&self, host: &dyn Host) -> Duration {
        let (_, waiters) = self.listener.company();
        let others = u64::try_from(waiters.saturating_sub(1)).unwrap_or(u64::MAX);
        let longest = Duration::from_millis(others).min(SPREAD_MAX);
        host.between(Duration::ZERO, longest)
    }
}
