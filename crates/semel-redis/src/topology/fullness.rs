//! Servers whose memory is full: they serve what they have, and an operator has to make room.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The servers that were full at the latest health check.
#[derive(Debug, Default)]
pub(crate) struct Fullness {
    full: Mutex<BTreeSet<String>>,
}

// === impl Fullness ===

impl Fullness {
    /// Records which servers are full, and logs changes.
    pub(super) fn found(&self, now: BTreeSet<String>) {
        let mut full = self.full();
        for server in now.difference(&full) {
            tracing::warn!(code = "redis_is_full", "{server}: {IS_FULL}");
        }
        for server in full.difference(&now) {
            tracing::info!("{server}: its memory has room again");
        }
        *full = now;
    }

    /// A note for operators, if a server is full.
    pub(crate) fn note(&self) -> Option<String> {
        let full = self.full();
        let servers = full.iter().cloned().collect::<Vec<_>>().join(", ");
        (!full.is_empty()).then(|| format!("{servers}: {IS_FULL}"))
    }

    fn full(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.full.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const IS_FULL: &str = "its memory is full, and no new key is taken until there is room, while what was begun is \
                       recorded and replayed: raise maxmemory, or shorten ttl";
