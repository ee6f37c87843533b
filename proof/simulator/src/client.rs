use std::sync::Arc;
use std::time::Duration;

use semel_core::invariants::Invariant;
use semel_core::{Fence, Fingerprint};
use semel_engine::{Answer, EngineError};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::node::{Node, Process, is_bounded};
use crate::oracle::require;
use crate::plan::{Operation, fingerprint};
use crate::trace::Source;
use crate::work::Work;
use crate::world::World;
use crate::{Fault, Mistake};

/// A client that retries an operation until it is done.
pub(crate) struct Client {
    pub(crate) world: World,
    pub(crate) nodes: Arc<[Arc<Node>]>,
    pub(crate) number: usize,
}

/// The result of one attempt for the client.
#[derive(Debug)]
pub(crate) enum AttemptResult {
    Answer(Answer),
    Error(EngineError),
    /// The node is not there, or ended before it answered.
    CutOff,
    /// The client did not wait for it.
    HungUp,
}

// === impl Client ===

impl Client {
    pub(crate) async fn operate(self, operation: Operation) {
        sleep(operation.at).await;
        let request = fingerprint(operation.key, operation.request);
        if operation.request > 0 {
            self.world.count(Fault::Mismatch);
        }
        for _ in 0..operation.tries {
            let result = self.attempt(operation.key, request, operation.client_timeout).await;
            if result.is_final() {
                break;
            }
            sleep(operation.pause).await;
        }
    }

    /// Makes one attempt on any node.
    pub(crate) async fn attempt(
        &self,
        key: usize,
        request: Fingerprint,
        client_timeout: Duration,
    ) -> AttemptResult {
        let node = &self.nodes[self.world.draw(|random| random.index(self.nodes.len()))];
        let Some(process) = node.process() else {
            return AttemptResult::CutOff;
        };
        let left = CancellationToken::new();
        let ended = process.gate.ended.clone();
        let call = self.call(process, node.number, key, request, left.clone());
        let result = tokio::select! {
            biased;
            () = ended.cancelled() => AttemptResult::CutOff,
            result = timeout(client_timeout, call) => result.unwrap_or(AttemptResult::HungUp),
        };
        if matches!(result, AttemptResult::HungUp) {
            left.cancel();
            self.world.count(Fault::HangUp);
        }
        self.world
            .note(Source::Client(self.number), format_args!("gets k{key}: {}", result.word()));
        result
    }

    /// The call itself, which runs on the node until the client leaves.
    fn call(
        &self,
        process: Process,
        node: usize,
        key: usize,
        request: Fingerprint,
        left: CancellationToken,
    ) -> impl Future<Output = AttemptResult> + Send + 'static {
        let (world, number) = (self.world.clone(), self.number);
        let (engine, gate) = (process.any_engine(&world), process.gate);
        gate.clone().keep(async move {
            let planned = &world.plan().keys[key];
            let mixes = world.has(Mistake::ScopesMixed);
            let id = if mixes { planned.id_without_scope } else { planned.id };
            let attempt = engine.attempt(id, request);
            let owner = attempt.owner();
            let begun =
                world.report(|oracle, moment| oracle.attempt(moment, (key, node), request, owner));
            let Some(name) = begun else {
                return AttemptResult::CutOff;
            };
            world.note(
                Source::Client(number),
                format_args!("calls node-{node} for k{key}: a{name}"),
            );
            if world.has(Mistake::WorkBeforeClaim) {
                world.judge(|oracle, moment| oracle.begins(moment, name, Some(Fence::FIRST)));
            }
            let work = Work { world: world.clone(), attempt: name, node, key, gate, left };
            let policy = planned.policy.clone();
            let answer = engine.once(attempt, &policy, |execution| work.start(execution)).await;
            world.judge(|oracle, moment| oracle.answered(moment, name, &answer));
            world.judge(|_, moment| {
                require(Invariant::Bounded, None, moment, is_bounded(&engine, &world), || {
                    format!("node-{node} has more than it may: {engine:?}")
                })
            });
            world.tally(|statistics| {
                statistics.answers += 1;
                statistics.replays += u64::from(matches!(answer, Ok(Answer::Replayed { .. })));
            });
            answer.map_or_else(AttemptResult::Error, AttemptResult::Answer)
        })
    }
}

// === impl AttemptResult ===

impl AttemptResult {
    /// Whether a retry is pointless.
    fn is_final(&self) -> bool {
        match self {
            Self::Answer(answer) => {
                !matches!(answer, Answer::InFlight { .. } | Answer::Released { .. })
            }
            Self::Error(_) | Self::CutOff | Self::HungUp => false,
        }
    }

    pub(crate) fn word(&self) -> String {
        match self {
            Self::Answer(Answer::Executed { stored, fence, .. }) => {
                format!("executed (fence {fence}, {stored:?})")
            }
            Self::Answer(Answer::Released { .. }) => "released".to_owned(),
            Self::Answer(Answer::Replayed { .. }) => "replayed".to_owned(),
            Self::Answer(Answer::InFlight { .. }) => "in flight".to_owned(),
            Self::Answer(Answer::Mismatch) => "mismatch".to_owned(),
            Self::Answer(Answer::Unknown { .. }) => "unknown".to_owned(),
            Self::Answer(Answer::Bypassed { .. }) => "bypassed".to_owned(),
            Self::Error(error) => error.to_string(),
            Self::CutOff => "cut off".to_owned(),
            Self::HungUp => "hung up".to_owned(),
        }
    }
}
