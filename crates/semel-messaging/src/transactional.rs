use std::pin::Pin;
use std::sync::Arc;

use semel_core::{Outcome, Reply};
use semel_engine::Answer;
use semel_postgres::transaction::{
    Database, OnceError, SameTransaction, TransactionPool, Work, WorkFuture,
};

use crate::failure::last;
use crate::{Failure, Handled, InboxRules, Message};

/// The future of a handler that works in a transaction.
pub type HandlerFuture<'w> = Pin<Box<dyn Future<Output = Result<(), Failure>> + Send + 'w>>;

/// An inbox on PostgreSQL: the record of a message and the rows of its work are one commit.
///
/// The effect is exactly once, as in every [same transaction](semel_postgres::transaction).
///
/// `D` is a source of transactions: a [`TransactionPool`], or with the feature `sqlx` of semel-postgres its `PgPool`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use semel_messaging::{EventId, Message, TransactionalInbox};
/// use semel_postgres::Options;
/// use semel_postgres::transaction::TransactionPool;
///
/// let pool = TransactionPool::open(Options::from_url("postgres://shop@localhost/shop")?).await?;
/// let inbox = TransactionalInbox::pooled(pool, "stock");
/// let message = Message::new(EventId::parse("evt-17")?, r#"{"article":"a-1"}"#);
/// let handled = inbox
///     .once(&message, "reserve", |work| {
///         Box::pin(async move {
///             work.execute("UPDATE article SET stock = stock - 1 WHERE id = $1", &[&"a-1"]).await?;
///             Ok(())
///         })
///     })
///     .await;
/// # drop(handled);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct TransactionalInbox<D> {
    same: SameTransaction,
    database: D,
    consumer: Arc<str>,
    namespace: Arc<str>,
    rules: Arc<InboxRules>,
}

// === impl TransactionalInbox ===

impl TransactionalInbox<TransactionPool> {
    /// The inbox of a consumer over a pool of Semel's own.
    pub fn pooled(pool: TransactionPool, consumer: impl Into<Arc<str>>) -> Self {
        Self::new(pool.same_transaction(), pool, consumer)
    }
}

impl<D: Database> TransactionalInbox<D> {
    /// The inbox of a consumer, with the default [`InboxRules`].
    pub fn new(same: SameTransaction, database: D, consumer: impl Into<Arc<str>>) -> Self {
        let (namespace, rules) = (Arc::from("inbox"), Arc::default());
        Self { same, database, consumer: consumer.into(), namespace, rules }
    }

    /// The same with other rules.
    #[must_use]
    pub fn rules(self, rules: InboxRules) -> Self {
        Self { rules: Arc::new(rules), ..self }
    }

    /// The same with another namespace; `inbox` by default.
    #[must_use]
    pub fn namespace(self, namespace: impl Into<Arc<str>>) -> Self {
        Self { namespace: namespace.into(), ..self }
    }

    /// Does the work of a message on a channel in a transaction, unless an earlier delivery has done it.
    ///
    /// The handler may be called again after a conflict; its rows are rolled back before. A failed attempt leaves
    /// nothing behind, so attempts are counted by [`Message::deliveries`] alone, and nothing is held:
    /// [`Failure::Unknown`] lets the message come again. Work with effects elsewhere belongs into an
    /// [`Inbox`](crate::Inbox), or behind a staged event.
    pub async fn once<W>(&self, message: &Message, channel: &str, mut work: W) -> Handled
    where
        W: for<'w> FnMut(&'w mut Work<'_, D::Tx>) -> HandlerFuture<'w> + Send,
    {
        let max = self.rules.attempts_max;
        let attempts = message.delivered();
        let answer = self
            .settle(message, channel, |tx| {
                let result = work(tx);
                Box::pin(async move {
                    match result.await {
                        Ok(()) => Ok(Outcome::Completed(Reply::default())),
                        // An error of the driver: a conflict is tried again.
                        Err(Failure::Later(error)) => Err(error),
                        Err(failure) => Ok(failure.outcome(attempts, max)),
                    }
                })
            })
            .await;
        let answer = match answer {
            Err(OnceError::Work(error)) if attempts >= max => {
                let outcome = last(&error, attempts);
                self.settle(message, channel, move |_| {
                    let outcome = outcome.clone();
                    Box::pin(async { Ok(outcome) })
                })
                .await
            }
            answer => answer,
        };
        answer.map_or_else(
            |error| self.failed(message, &error),
            |answer| Handled::of(answer, message, &self.rules),
        )
    }

    async fn settle<W>(
        &self,
        message: &Message,
        channel: &str,
        work: W,
    ) -> Result<Answer, OnceError>
    where
        W: for<'w> FnMut(&'w mut Work<'_, D::Tx>) -> WorkFuture<'w> + Send,
    {
        let record = message.record(&self.namespace, &self.consumer, channel);
        let (fingerprint, policy) = (message.fingerprint(), &self.rules.policy);
        self.same.once(&self.database, record, fingerprint, policy, work).await
    }

    fn failed(&self, message: &Message, error: &OnceError) -> Handled {
        tracing::warn!(event = message.id().as_str(), %error, "the message was not handled");
        Handled::Later(self.rules.pause_after(message.delivered()))
    }
}
