use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};

use semel_core::RecordId;

/// A map by record.
pub type RecordMap<V> = HashMap<RecordId, V, IdHash>;

/// Hashes record ids for maps in memory.
///
/// An id is a cryptographic hash already, but clients choose their keys, and an attacker can search for
/// keys whose ids have a common prefix. Without further hashing such ids would share a bucket, and the map
/// would degrade to a list. So the hash also depends on a random secret of each map.
#[derive(Clone)]
pub struct IdHash {
    secret: [u64; 2],
}

/// The hasher of [`IdHash`], for one id.
pub struct IdHasher {
    secret: [u64; 2],
    hash: u64,
}

// === impl IdHash ===

impl Default for IdHash {
    fn default() -> Self {
        let random = RandomState::new();
        Self { secret: [random.hash_one(0), random.hash_one(1)] }
    }
}

impl BuildHasher for IdHash {
    type Hasher = IdHasher;

    fn build_hasher(&self) -> IdHasher {
        IdHasher { secret: self.secret, hash: 0 }
    }
}

/// Shows no secret.
impl fmt::Debug for IdHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdHash").finish_non_exhaustive()
    }
}

// === impl IdHasher ===

impl Hasher for IdHasher {
    fn write(&mut self, bytes: &[u8]) {
        // The first half of an id is enough: a collision of 128 bits cannot be found.
        let (words, _) = bytes.as_chunks();
        if let [first, second, ..] = words {
            let first = u64::from_le_bytes(*first) ^ self.secret[0];
            let second = u64::from_le_bytes(*second) ^ self.secret[1];
            // The full-width product depends on every bit of both.
            let (low, high) = first.carrying_mul(second, 0);
            self.hash = low ^ high;
        }
    }

    // The length of an array is hashed too, and is constant here.
    fn write_usize(&mut self, _len: usize) {}

    fn finish(&self) -> u64 {
        self.hash
    }
}

impl fmt::Debug for IdHasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdHasher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use semel_core::{Key, Scope};

    use super::*;

    /// The number of ids in the fullest of 256 buckets; a map has as many or more.
    fn fullest(hash: &IdHash, ids: impl Iterator<Item = RecordId>) -> usize {
        let mut buckets = [0; 256];
        for id in ids {
            buckets[usize::from(hash.hash_one(id).to_le_bytes()[0])] += 1;
        }
        buckets.into_iter().max().unwrap()
    }

    /// An attacker's ids: equal in the bits that would pick the bucket without further hashing.
    #[test]
    fn ids_that_begin_alike_are_spread() {
        let alike = |number: u32| {
            let key = Key::parse(&format!("order-{number}")).unwrap();
            let mut id = *RecordId::new("shop", &Scope::new([("who", "ann")]), &key).as_bytes();
            id[..4].fill(7);
            id[7] = 7;
            RecordId::from_bytes(id)
        };
        // About 16 in each, if they are spread at random.
        assert!(fullest(&IdHash::default(), (0..4_096).map(alike)) < 64);
    }

    #[test]
    fn no_two_maps_share_a_secret() {
        let id = RecordId::from_bytes([7; 32]);
        let hash = IdHash::default();
        assert_eq!(hash.hash_one(id), hash.hash_one(id));
        assert_ne!(hash.hash_one(id), IdHash::default().hash_one(id));
    }
}
