use std::sync::Arc;

use semel_core::{Fence, Outcome, Reply};
use semel_engine::{Engine, Execution};

use crate::{Failure, Handled, InboxRules, Message};

/// Does the work of messages once, over any store. Clones share the engine.
#[derive(Clone, Debug)]
pub struct Inbox {
    engine: Engine,
    consumer: Arc<str>,
    namespace: Arc<str>,
    rules: Arc<InboxRules>,
}

// === impl Inbox ===

impl Inbox {
    /// The inbox of a consumer, with the default [`InboxRules`]. Consumers of different names do their own work for the
    /// same event.
    pub fn new(engine: Engine, consumer: impl Into<Arc<str>>) -> Self {
        let (namespace, rules) = (Arc::from("inbox"), Arc::default());
        Self { engine, consumer: consumer.into(), namespace, rules }
    }

    /// The same with other rules.
    #[must_use]
    pub fn rules(self, rules: InboxRules) -> Self {
        Self { rules: Arc::new(rules), ..self }
    }

    /// The same with another namespace; `inbox` by default. Deployments that share a store and must not share records
    /// have different ones.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Does the work of a message on a channel, unless an earlier delivery has done it.
    ///
    /// The work runs to its end even if this future is dropped (I9). Its [`Execution`] has the fence for the service that
    /// performs the effect.
    pub async fn once<W, F>(&self, message: &Message, channel: &str, work: W) -> Handled
    where
        W: FnOnce(Execution) -> F + Send + 'static,
        F: Future<Output = Result<(), Failure>> + Send + 'static,
    {
        let record = message.record(&self.namespace, &self.consumer, channel);
        let attempt = self.engine.attempt(record, message.fingerprint());
        let (delivered, attempts_max) = (message.delivered(), self.rules.attempts_max);
        let work = move |execution: Execution| {
            // The fence rises with every lease, so it counts attempts, those that crashed included.
            let fence = execution.fence().map_or(1, Fence::get);
            let attempts = fence.max(delivered);
            let result = work(execution);
            async move {
                match result.await {
                    Ok(()) => Outcome::Completed(Reply::default()),
                    Err(failure) => failure.outcome(attempts, attempts_max),
                }
            }
        };
        let handled = match self.engine.once(attempt, &self.rules.policy, work).await {
            Ok(answer) => Handled::of(answer, message, &self.rules),
            Err(error) => {
                tracing::warn!(record = %record.prefix(), %error, "the message was not handled");
                Handled::Later(self.rules.pause_after(delivered))
            }
        };
        tracing::debug!(record = %record.prefix(), channel, handled = handled.as_str(), "message");
        handled
    }
}
