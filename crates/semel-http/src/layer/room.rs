//! How much of bodies is held in memory at once, over all requests (I10).
//!
//! What a body takes is given back when its bytes are gone, not when its body object is: a server
//! drops that as soon as it has the last piece, and may hold the piece for as long as a slow client
//! takes. So a piece that is handed out carries its share with it, in an owner. That costs an
//! allocation, so pieces below [`LARGE_FROM`] go without: their share is given back with the body
//! object. That is little, since a body that was read whole is one piece, and a server has more
//! than that around each of its connections anyway.
//!
//! Not counted either: heads and trailers, what the store holds of a reply, and the one piece that
//! showed that there is no room for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;

/// From this length on a piece is worth an allocation of its own.
pub(crate) const LARGE_FROM: usize = 4 << 10;

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

/// The owner of bytes that were handed out.
struct Held {
    data: Bytes,
    /// Held for its drop, which comes with the last clone of the bytes.
    _share: Taken,
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
        // Never more than the limit, not even for a moment: who asks for too much must not get
        // those refused who ask for little.
        let within = |taken: u64| taken.checked_add(bytes).filter(|sum| *sum <= self.room.max);
        let is_taken =
            self.room.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok();
        if is_taken {
            self.bytes += bytes;
        }
        is_taken
    }

    /// The data as it is handed out: if it is large, its share of what was taken goes with it.
    pub(crate) fn hand_out(&mut self, data: Bytes) -> Bytes {
        // The piece there was no room for comes last, and finds nothing left.
        let share = self.bytes.min(data.len() as u64);
        if data.len() < LARGE_FROM || share == 0 {
            return data;
        }
        self.bytes -= share;
        let share = Self { room: Arc::clone(&self.room), bytes: share };
        Bytes::from_owner(Held { data, _share: share })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

// === impl Held ===

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
impl Room {
    pub(crate) fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
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
        assert!(other.more(2) && !other.more(1) && other.more(0));
        assert!(!other.more(u64::MAX));
        drop(one);
        assert!(other.more(8) && !other.more(1));
        drop(other);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_large_piece_takes_its_room_until_its_last_clone_is_gone() {
        let room = Room::new(10_000);
        let mut taken = room.enter();
        assert!(taken.more(5_000));
        let piece = taken.hand_out(vec![b'x'; 5_000].into());
        drop(taken);
        let end = piece.slice(4_999..);
        assert_eq!((piece.len(), room.taken()), (5_000, 5_000));
        drop(piece);
        assert_eq!((&end[..], room.taken()), (&b"x"[..], 5_000));
        drop(end);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_small_piece_stays_as_it_is() {
        let room = Room::new(10_000);
        let mut taken = room.enter();
        assert!(taken.more(4_095));
        let data = Bytes::from(vec![b'x'; 4_095]);
        let piece = taken.hand_out(data.clone());
        assert_eq!((piece.as_ptr(), taken.bytes), (data.as_ptr(), 4_095));
        drop(taken);
        assert_eq!(room.taken(), 0);
    }

    #[test]
    fn a_piece_never_carries_more_than_was_taken() {
        let room = Room::new(10_000);
        let mut taken = room.enter();
        assert!(taken.more(6_000) && !taken.more(6_000));
        let pieces = [(); 2].map(|()| taken.hand_out(vec![b'x'; 6_000].into()));
        assert_eq!(room.taken(), 6_000);
        drop((taken, pieces));
        assert_eq!(room.taken(), 0);
    }
}
