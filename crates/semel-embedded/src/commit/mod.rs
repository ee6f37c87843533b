//! Group commit: operations are decided one after the other under a lock and join the open batch;
//! each is answered once its batch is durable.
//!
//! Two protocols write the batches, chosen by [`Durability`](crate::Durability):
//!
//! | protocol | for | writer |
//! |---|---|---|
//! | [`committer`] | `Power` | one thread, batch after batch, each with one sync; the next batch fills meanwhile |
//! | [`inline`] | `Process` | the caller of a batch that runs first, as a write without a sync takes less time than waking a thread; what would make it wait is left to the committer |
//!
//! Both end in [`write`], which makes a batch durable and only then completes its operations (I5, I6).
//! Code outside of this module sees operations and their answers, never a batch.

mod committer;
mod inline;
mod queue;
mod recent;
mod reopening;
mod result;
mod state;
mod write;

pub(crate) use queue::{CommitQueue, Pending};
pub(crate) use recent::Snapshot;
pub(crate) use reopening::Priority;

#[cfg(test)]
mod tests;
