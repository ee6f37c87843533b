//! How much of bodies is held in memory at once, over all requests (I10).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The limit, and how much of it is taken.
#[derive(Debug)]
pub(crate) struct Room {
    max: u64,
    taken: AtomicU64,
}

/// What one body takes; given back when dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Arc<Room>,
    bytes: u64,
}

// === impl Room ===

impl Room {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { max, taken: AtomicU64::new(0) })
    }

    /// Nothing yet.
    pub(crate) fn enter(self: &Arc<Self>) -> Taken {
        Taken { room: Arc::clone(self), bytes: 0 }
    }
}

// === impl Taken ===

impl Taken {
    /// Takes more, unless that is more than there is.
    pub(crate) fn more(&mut self, bytes: u64) -> bool {
        let before = self.room.taken.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes) > self.room.max {
            self.room.taken.fetch_sub(bytes, Ordering::Relaxed);
            return false;
        }
        self.bytes += bytes;
        true
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_given_back() {
        let room = Room::new(10);
        let (mut one, mut other) = (room.enter(), room.enter());
        assert!(one.more(4) && one.more(4) && !one.more(4));
        assert!(other.more(2) && !other.more(1));
        drop(one);
        assert!(other.more(8) && !other.more(1));
        drop(other);
        assert_eq!(room.taken.load(Ordering::Relaxed), 0);
    }
}
