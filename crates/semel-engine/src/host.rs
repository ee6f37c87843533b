use std::pin::Pin;
use std::time::Duration;

use semel_core::Owner;
use tracing::Instrument as _;

/// A task of an engine's, ready to be spawned.
pub type HostTask = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The runtime of an engine besides its store: it spawns tasks and generates random numbers.
///
/// Programs need no host of their own: [`Engine::new`](crate::Engine::new) takes Tokio and the thread's
/// generator. A simulator brings one, so that one seed gives one run, and so that it can stop or
/// end all tasks of an engine at once, as a process does.
///
/// Time is always Tokio's, and the work itself always runs in a Tokio task of its own.
pub trait Host: Send + Sync + 'static {
    /// Runs a task to its end, even if its caller is dropped.
    fn spawn(&self, task: HostTask);

    /// A random number. Owners are made of these, so they must not repeat on any node.
    fn random(&self) -> u64;
}

/// The host of all engines except simulated ones.
pub(crate) struct TokioHost;

impl Host for TokioHost {
    fn spawn(&self, task: HostTask) {
        tokio::spawn(task.in_current_span());
    }

    fn random(&self) -> u64 {
        rand::random()
    }
}

// === impl dyn Host ===

impl dyn Host {
    /// A new, unique owner.
    pub(crate) fn owner(&self) -> Owner {
        Owner::from_u128(u128::from(self.random()) << 64 | u128::from(self.random()))
    }

    /// A random duration between the two, both included.
    pub(crate) fn between(&self, shortest: Duration, longest: Duration) -> Duration {
        let nanos = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let shortest = nanos(shortest);
        let choices = u128::from(nanos(longest).saturating_sub(shortest)) + 1;
        // The upper half of the product: below `choices`, and as even as the numbers are.
        let more = (u128::from(self.random()) * choices) >> 64;
        Duration::from_nanos(shortest.saturating_add(u64::try_from(more).unwrap_or(u64::MAX)))
    }
}
