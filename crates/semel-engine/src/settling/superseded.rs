//! The answer of a holder whose lease was superseded by another one.

use semel_core::{InFlight, State};
use tokio::time::Instant;

use crate::Answer;
use crate::answer::Caller;
use crate::renewal::LeaseKeeper;
use crate::waiting::{Wake, WakeSources};

/// The answer that a duplicate would get, never the holder's own outcome (I4). The record is only read, since a
/// claim could make the attempt execute a second time.
///
/// `None` if the record is gone, or belongs to another request by now.
pub(super) async fn answer_of_newer_holder(
    keeper: &LeaseKeeper,
    caller: &mut Caller,
) -> Option<Answer> {
    let (context, lease) = (keeper.context(), keeper.lease());
    let deadline = match keeper.policy().in_flight() {
        InFlight::Wait(timeout) => Instant::now() + timeout,
        InFlight::Conflict | InFlight::Accepted => Instant::now(),
    };
    let mut until = lease.until();
    let listener = context.registry.listen(lease.id());
    // A watch costs a subscription, which is worthless without a wait.
    let waits = deadline > Instant::now();
    let watch = if waits { context.store.watch(lease.id()) } else { None };
    let mut sources = WakeSources::new(listener, watch);
    let mut polls = sources.polls(context);
    loop {
        if let Ok(record) = context.inspect(lease.id(), keeper.verb_timeout()).await {
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
        polls.set_cap(sources.longest_pause(context));
        let poll_at = Instant::now() + polls.pause(&*context.host);
        if let Wake::Stop = sources.pause(context, caller, deadline, poll_at).await {
            return Some(Answer::InFlight { until });
        }
    }
}
