//! The memory budget of bodies, over all requests (I10).
//!
//! A share is returned when the bytes are dropped, not when the body object is: a server drops the
//! body as soon as it has the last chunk, and may hold that chunk for as long as a slow client
//! takes. So an emitted chunk owns its share. That costs an
//! allocation, so chunks below [`LARGE_FROM`] go without: their share is given back with the body
//! object. That is little, since a body that was read whole is one chunk, and a server has more
//! than that around each of its connections anyway.
//!
//! Not counted either: heads and trailers, replies in the store, and the one chunk that exceeded
//! the budget.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http::request::Parts;
use semel_core::Fingerprint;

use crate::fingerprint::{decoded_len, fingerprint_of};
use crate::routes::Route;

/// From this length on a chunk is worth an allocation of its own.
pub(crate) const LARGE_FROM: usize = 4 << 10;

/// The limit, and how much of it is used.
#[derive(Debug)]
pub(crate) struct BodyBudget {
    max: u64,
    used: AtomicU64,
}

/// The bytes that one body has reserved; returned on drop.
#[derive(Debug)]
pub(crate) struct BudgetShare {
    budget: Arc<BodyBudget>,
    bytes: u64,
}

/// Why a decoded body has no share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OverBudget {
    /// Other bodies take up too much.
    Now,
    /// The body exceeds the whole budget.
    Always { max: u64 },
}

/// An emitted chunk with its share.
struct CountedBytes {
    data: Bytes,
    /// Returned with the last clone of the bytes.
    _share: BudgetShare,
}

// === impl BodyBudget ===

impl BodyBudget {
    pub(crate) fn new(max: u64) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicU64::new(0) })
    }

    /// An empty share.
    pub(crate) fn share(self: &Arc<Self>) -> BudgetShare {
        BudgetShare { budget: Arc::clone(self), bytes: 0 }
    }

    /// The fingerprint of a request whose body has been read, unless the decoded body exceeds what is left of the
    /// budget. There is no other comparison then: the same bytes would be another request once they fit again.
    pub(crate) fn fingerprint(
        self: &Arc<Self>,
        parts: &Parts,
        body: &[u8],
        route: &Route,
    ) -> Result<Fingerprint, OverBudget> {
        let decoded_len = decoded_len(&parts.headers, body, route.policy());
        if decoded_len > self.max {
            return Err(OverBudget::Always { max: self.max });
        }
        let mut decoded = self.share();
        if decoded.reserve(decoded_len) {
            Ok(fingerprint_of(parts, body, route))
        } else {
            Err(OverBudget::Now)
        }
    }
}

// === impl BudgetShare ===

impl BudgetShare {
    /// Reserves more bytes. Returns false if they exceed the budget.
    pub(crate) fn reserve(&mut self, bytes: u64) -> bool {
        // Never above the limit, not even for a moment: one large reservation must not fail
        // concurrent small ones.
        let within = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.budget.max);
        let is_reserved =
            self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok();
        if is_reserved {
            self.bytes += bytes;
        }
        is_reserved
    }

    /// The chunk to emit: a large one takes its part of the share along.
    pub(crate) fn hand_out(&mut self, data: Bytes) -> Bytes {
        // The chunk that exceeded the budget comes last, when the share is empty.
        let share = self.bytes.min(data.len() as u64);
        if data.len() < LARGE_FROM || share == 0 {
            return data;
        }
        self.bytes -= share;
        let share = Self { budget: Arc::clone(&self.budget), bytes: share };
        Bytes::from_owner(CountedBytes { data, _share: share })
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

// === impl CountedBytes ===

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

#[cfg(test)]
impl BodyBudget {
    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_share_returns_its_bytes() {
        let budget = BodyBudget::new(10);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.reserve(4) && one.reserve(4) && !one.reserve(4));
        assert!(other.reserve(2) && !other.reserve(1) && other.reserve(0));
        assert!(!other.reserve(u64::MAX));
        drop(one);
        assert!(other.reserve(8) && !other.reserve(1));
        drop(other);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_large_chunk_counts_until_its_last_clone_is_dropped() {
        let budget = BodyBudget::new(10_000);
        let mut share = budget.share();
        assert!(share.reserve(5_000));
        let chunk = share.hand_out(vec![b'x'; 5_000].into());
        drop(share);
        let end = chunk.slice(4_999..);
        assert_eq!((chunk.len(), budget.used()), (5_000, 5_000));
        drop(chunk);
        assert_eq!((&end[..], budget.used()), (&b"x"[..], 5_000));
        drop(end);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_small_chunk_is_not_wrapped() {
        let budget = BodyBudget::new(10_000);
        let mut share = budget.share();
        assert!(share.reserve(4_095));
        let data = Bytes::from(vec![b'x'; 4_095]);
        let chunk = share.hand_out(data.clone());
        assert_eq!((chunk.as_ptr(), share.bytes), (data.as_ptr(), 4_095));
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_chunk_never_carries_more_than_was_reserved() {
        let budget = BodyBudget::new(10_000);
        let mut share = budget.share();
        assert!(share.reserve(6_000) && !share.reserve(6_000));
        let chunks = [(); 2].map(|()| share.hand_out(vec![b'x'; 6_000].into()));
        assert_eq!(budget.used(), 6_000);
        drop((share, chunks));
        assert_eq!(budget.used(), 0);
    }
}
