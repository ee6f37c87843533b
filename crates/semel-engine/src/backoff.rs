use std::time::Duration;

use crate::host::Host;

/// Exponential backoff with jitter: each pause is about twice as long as the one before, up to a cap. The
/// jitter spreads the retries of tasks that failed together.
#[derive(Debug)]
pub(crate) struct Backoff {
    first: Duration,
    next: Duration,
    cap: Duration,
}

// === impl Backoff ===

impl Backoff {
    /// Pauses that start at about `first` and never exceed `cap`.
    pub(crate) const fn new(first: Duration, cap: Duration) -> Self {
        Self { first, next: first, cap }
    }

    /// The next pause: random, between half of the current length and all of it.
    pub(crate) fn pause(&mut self, host: &dyn Host) -> Duration {
        let longest = self.next.min(self.cap);
        self.next = self.next.saturating_mul(2).min(self.cap);
        host.between(longest / 2, longest)
    }

    /// Whether the next pause is a first one.
    pub(crate) fn is_fresh(&self) -> bool {
        self.next == self.first
    }

    /// Starts over with the first pause, after a success.
    pub(crate) const fn reset(&mut self) {
        self.next = self.first;
    }

    /// Changes the longest pause from now on.
    pub(crate) const fn set_cap(&mut self, cap: Duration) {
        self.cap = cap;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::TokioHost;

    #[test]
    fn pauses_grow_to_the_cap_and_vary() {
        let mut backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(80));
        let pauses: Vec<_> = (0..50).map(|_| backoff.pause(&TokioHost)).collect();
        assert!(pauses[0] >= Duration::from_millis(5) && pauses[0] <= Duration::from_millis(10));
        assert!(pauses[3..].iter().all(|pause| {
            (Duration::from_millis(40)..=Duration::from_millis(80)).contains(pause)
        }));
        assert!(pauses[3..].windows(2).any(|pair| pair[0] != pair[1]));
        backoff.reset();
        assert!(backoff.pause(&TokioHost) <= Duration::from_millis(10));
    }
}
