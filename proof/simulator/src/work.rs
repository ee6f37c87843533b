use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Fence, Outcome, Reply};
use semel_engine::Execution;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use crate::oracle::Ended;
use crate::random::Random;
use crate::trace::Source;
use crate::world::World;
use crate::{Fault, Mistake};

/// The work of one attempt: it takes its time, takes effect or not, and ends in one of many ways.
pub(crate) struct Work {
    pub(crate) world: World,
    pub(crate) attempt: usize,
    pub(crate) node: usize,
    pub(crate) key: usize,
    pub(crate) gate: Arc<Gate>,
    /// Set when the client hangs up.
    pub(crate) left: CancellationToken,
}

/// How a piece of work goes.
struct Script {
    before: Duration,
    takes_effect: bool,
    after: Duration,
    end: End,
    /// Whether it stops when its lease is lost, if nothing has happened by then.
    heeds_loss: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Completed,
    Failed,
    FailedForNow,
    Unknown,
    Panic,
}

// === impl Work ===

impl Work {
    /// Starts it on its node.
    pub(crate) fn start(self, execution: Execution) -> impl Future<Output = Outcome> + Send {
        let gate = self.gate.clone();
        gate.keep(self.run(execution))
    }

    async fn run(self, execution: Execution) -> Outcome {
        let (attempt, fence) = (self.attempt, execution.fence());
        self.world.judge(|oracle, moment| oracle.begins(moment, attempt, fence));
        let script = self.script();
        self.note(format_args!("executes a{attempt} (fence {})", fence.map_or(0, Fence::get)));
        let outcome = if self.world.has(Mistake::WorkEndsWithClient) {
            tokio::select! {
                biased;
                () = self.left.cancelled() => std::future::pending().await,
                outcome = self.perform(&script, &execution) => outcome,
            }
        } else {
            self.perform(&script, &execution).await
        };
        let ended = outcome.clone().map_or(Ended::Panicked, Ended::With);
        self.note(format_args!("ends a{attempt}: {:?}", script.end));
        self.world.report(|oracle, moment| {
            oracle.ends(moment, attempt, ended);
            Ok(())
        });
        // Without the hook that would print it: panics are nothing special here.
        outcome.unwrap_or_else(|| resume_unwind(Box::new("simulated")))
    }

    /// How it ended, but for a panic.
    async fn perform(&self, script: &Script, execution: &Execution) -> Option<Outcome> {
        let reply = Reply::new(format!("k{} by a{}", self.key, self.attempt));
        if script.heeds_loss {
            tokio::select! {
                biased;
                () = sleep(script.before) => {}
                () = execution.lost() => return Some(Outcome::FailedForNow(reply)),
            }
        } else {
            sleep(script.before).await;
        }
        if script.takes_effect {
            self.note(format_args!("takes effect a{}", self.attempt));
            self.world.judge(|oracle, moment| oracle.takes_effect(moment, self.attempt));
        }
        sleep(script.after).await;
        Some(match script.end {
            End::Completed => Outcome::Completed(reply),
            End::Failed => Outcome::Failed(reply),
            End::FailedForNow => Outcome::FailedForNow(reply),
            End::Unknown => Outcome::Unknown(reply),
            End::Panic => return None,
        })
    }

    fn script(&self) -> Script {
        let lease = self.world.plan().keys[self.key].policy.lease();
        let is_calm = self.world.is_calm();
        let script = self.world.draw(|random| Script::draw(random, lease, is_calm));
        let is_slow = script.before + script.after > lease;
        let faults = [
            (is_slow, Fault::SlowWork),
            (script.end == End::Panic, Fault::Panic),
            (script.end == End::Unknown, Fault::UnknownOutcome),
            (script.end == End::FailedForNow, Fault::FailedForNow),
        ];
        for (_, fault) in faults.into_iter().filter(|(strikes, _)| *strikes) {
            self.world.count(fault);
        }
        script
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.world.note(Source::Node(self.node), what);
    }
}

// === impl Script ===

impl Script {
    fn draw(random: &mut Random, lease: Duration, is_calm: bool) -> Self {
        let longest = match random.below(20) {
            0..12 => lease / 4,
            12..17 => lease,
            _ => lease * 3,
        };
        let end = match random.below(20) {
            _ if is_calm => End::Completed,
            0..12 => End::Completed,
            12..14 => End::Failed,
            14..17 => End::FailedForNow,
            17 | 18 => End::Unknown,
            _ => End::Panic,
        };
        let takes_effect = match end {
            End::Completed => true,
            End::Failed | End::FailedForNow => false,
            End::Unknown | End::Panic => random.chance(500),
        };
        Self {
            before: random.between(Duration::ZERO, longest),
            takes_effect,
            after: random.between(Duration::ZERO, longest),
            end,
            heeds_loss: random.chance(300),
        }
    }
}
