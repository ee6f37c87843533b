//! The task that refreshes the keys.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::key_cache::KeyCache;
use super::source::{Found, KeysFault, Source, Stamp};
use crate::config::Jwt;
use crate::metric;

/// How often a file is checked for a change.
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Refreshes the keys: at an interval, when a file changes, and when a token has an unknown key.
pub(super) struct Refresh {
    source: Source,
    cache: KeyCache,
    every: Duration,
    /// The interval after a refresh that failed.
    soon: Duration,
    next: Instant,
    /// The bytes that the keys were last read from.
    bytes: Option<Vec<u8>>,
    stamp: Option<Stamp>,
    is_failing: bool,
}

// === impl Refresh ===

impl Refresh {
    pub(super) fn new(source: Source, cache: KeyCache, jwt: &Jwt) -> Self {
        Self {
            source,
            cache,
            every: jwt.refresh,
            soon: jwt.min_refresh,
            next: Instant::now(),
            bytes: None,
            stamp: None,
            is_failing: false,
        }
    }

    /// Never ends.
    pub(super) async fn run(mut self) {
        loop {
            let seen = Instant::now() + FILE_CHECK_INTERVAL;
            let alarm = if self.source.is_file() { self.next.min(seen) } else { self.next };
            let is_asked = tokio::select! {
                () = sleep_until(alarm) => false,
                () = self.cache.asked() => true,
            };
            let is_time = Instant::now() >= self.next || (is_asked && self.cache.is_due());
            if is_time || self.source.stamp().await != self.stamp {
                // `refresh` logs a failure.
                let _ = self.refresh().await;
            }
        }
    }

    /// Reads the keys once.
    pub(super) async fn refresh(&mut self) -> Result<(), KeysFault> {
        self.cache.begin();
        // Before the file is read: a change meanwhile is found by the next check.
        self.stamp = self.source.stamp().await;
        let found = self.source.read(self.bytes.as_deref()).await;
        let keys = self.source.shown();
        let (outcome, wait) = match &found {
            Ok(Found::Unchanged) => ("unchanged", self.every),
            Ok(Found::Keys(..)) => ("read", self.every),
            Err(_) => ("failed", self.every.min(self.soon)),
        };
        metrics::counter!(metric::TOKEN_KEY_REFRESHES_TOTAL, "outcome" => outcome).increment(1);
        self.next = Instant::now() + wait;
        let was_failing = std::mem::replace(&mut self.is_failing, found.is_err());
        match found {
            Ok(Found::Keys(set, bytes)) => {
                tracing::info!(keys, count = set.len(), "keys of tokens read");
                self.bytes = Some(bytes);
                self.cache.end(Some(set));
            }
            Ok(Found::Unchanged) => {
                if was_failing {
                    tracing::info!(keys, "keys of tokens can be read again, and are the same");
                }
                self.cache.end(None);
            }
            Err(fault) => {
                self.log_failure(&fault, was_failing);
                self.cache.end(None);
                return Err(fault);
            }
        }
        Ok(())
    }

    /// Logs a failure: as a warning when an outage begins, then for debugging only.
    fn log_failure(&self, fault: &KeysFault, was_failing: bool) {
        let goes_on = if self.cache.is_ready() {
            "tokens are verified by the keys that are known"
        } else {
            "no token can be verified until they are read"
        };
        if was_failing {
            tracing::debug!(%fault, goes_on, "keys of tokens still cannot be read");
        } else {
            tracing::warn!(%fault, goes_on, "keys of tokens cannot be read");
        }
    }
}
