//! The buffered data of a body.

use std::collections::VecDeque;

use bytes::Bytes;

use super::body_budget::LARGE_FROM;

/// Small chunks are joined up to this length: growing further would copy and reserve too much.
const JOINED_MAX: usize = 64 << 10;

/// Data in chunks, in about as much memory as its bytes.
///
/// A chunk may come as a few bytes of a large buffer, which it keeps alive, and its own place in a
/// list takes 32 bytes. So a body in many small chunks would take many times its length. Only
/// large chunks are held as they came; small ones are joined, in buffers of which at least half
/// is used.
#[derive(Default)]
pub(crate) struct Chunks {
    /// All there is of most bodies, as it came. Empty as soon as there are more.
    only: Bytes,
    more: Option<Box<Many>>,
}

/// More than one chunk.
#[derive(Default)]
struct Many {
    chunks: VecDeque<Bytes>,
    /// Small chunks that came after those, joined.
    joined: Vec<u8>,
}

// === impl Chunks ===

impl Chunks {
    pub(crate) fn push(&mut self, data: Bytes) {
        match &mut self.more {
            _ if data.is_empty() => {}
            Some(many) => many.push(data),
            None if self.only.is_empty() => self.only = data,
            None => {
                let many = self.more.insert(Box::default());
                many.push(std::mem::take(&mut self.only));
                many.push(data);
            }
        }
    }

    /// Takes out the first chunk.
    pub(crate) fn pop(&mut self) -> Option<Bytes> {
        match &mut self.more {
            Some(many) => many.pop(),
            None if self.only.is_empty() => None,
            None => Some(std::mem::take(&mut self.only)),
        }
    }

    /// All data in one chunk. Copies only what came in several.
    pub(crate) fn whole(&mut self) -> &Bytes {
        if let Some(mut many) = self.more.take() {
            self.only = many.join();
        }
        &self.only
    }

    pub(crate) fn len(&self) -> usize {
        self.only.len() + self.more.as_ref().map_or(0, |many| many.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Prints no byte of the body (trap 24).
impl std::fmt::Debug for Chunks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

// === impl Many ===

impl Many {
    fn push(&mut self, data: Bytes) {
        let is_large = data.len() >= LARGE_FROM;
        if is_large || self.joined.len() + data.len() > JOINED_MAX {
            self.close();
        }
        if is_large {
            self.chunks.push_back(data);
        } else {
            self.joined.extend_from_slice(&data);
        }
    }

    /// Appends the joined chunks as one.
    fn close(&mut self) {
        if !self.joined.is_empty() {
            self.chunks.push_back(std::mem::take(&mut self.joined).into());
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        if self.chunks.is_empty() {
            self.close();
        }
        self.chunks.pop_front()
    }

    fn join(&mut self) -> Bytes {
        if self.chunks.is_empty() {
            return std::mem::take(&mut self.joined).into();
        }
        let mut whole = Vec::with_capacity(self.len());
        // Each chunk goes before the next is copied, so there is hardly ever more than one body.
        while let Some(chunk) = self.pop() {
            whole.extend_from_slice(&chunk);
        }
        whole.into()
    }

    fn len(&self) -> usize {
        self.chunks.iter().map(Bytes::len).sum::<usize>() + self.joined.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn chunks<T: Into<Bytes>>(data: impl IntoIterator<Item = T>) -> Chunks {
        let mut chunks = Chunks::default();
        for data in data {
            chunks.push(data.into());
        }
        chunks
    }

    /// How many bytes of memory are held for a body, besides the large chunks themselves.
    fn overhead(chunks: &Chunks) -> usize {
        let many = chunks.more.as_ref().unwrap();
        let is_large = |chunk: &&Bytes| chunk.len() >= LARGE_FROM;
        assert!(many.chunks.iter().filter(|chunk| !is_large(chunk)).count() <= 1);
        many.chunks.capacity() * size_of::<Bytes>() + many.joined.capacity() - many.joined.len()
    }

    #[test]
    fn a_single_chunk_is_not_copied() {
        for len in [1, 100, 100_000] {
            let data = Bytes::from(vec![b'x'; len]);
            let mut chunks = chunks([Bytes::new(), data.clone(), Bytes::new()]);
            assert_eq!(chunks.whole().as_ptr(), data.as_ptr());
            assert_eq!(chunks.pop().unwrap().as_ptr(), data.as_ptr());
            assert!(chunks.is_empty() && chunks.pop().is_none());
        }
    }

    /// A body of one byte at a time takes about its own length, and not the buffers it came in.
    #[test]
    fn tiny_chunks_are_joined() {
        let buffer = Bytes::from(vec![b'x'; 200_000]);
        let mut chunks = chunks((0..200_000).map(|at| buffer.slice(at..=at)));
        assert!(buffer.is_unique(), "the buffer is still held");
        assert!(overhead(&chunks) < 70_000, "{} bytes", overhead(&chunks));
        assert_eq!((chunks.len(), chunks.whole() == &buffer), (200_000, true));
    }

    #[test]
    fn large_chunks_are_kept_without_copying() {
        let large = [vec![1; LARGE_FROM], vec![2; 100_000]].map(Bytes::from);
        let [one, other] = &large;
        let small = Bytes::from_static(b"small");
        let mut chunks = chunks([&small, one, &small, &small, other].map(Bytes::clone));
        assert_eq!(chunks.pop().unwrap(), "small");
        assert_eq!(chunks.pop().unwrap().as_ptr(), one.as_ptr());
        assert_eq!(chunks.pop().unwrap(), "smallsmall");
        assert_eq!(chunks.pop().unwrap().as_ptr(), other.as_ptr());
        assert!(chunks.is_empty() && chunks.pop().is_none());
    }

    #[test]
    fn debug_output_has_no_byte_of_the_body() {
        assert_eq!(format!("{:?}", chunks(["secret", "secret"])), "12 bytes");
    }

    proptest! {
        /// Whatever the chunks are, their bytes come back in order, one by one and as a whole.
        #[test]
        fn all_bytes_come_back_in_order(lens in proptest::collection::vec(0..9_000_usize, 0..40)) {
            let mut next = 0_u8;
            let mut data = |len| -> Vec<u8> {
                next = next.wrapping_add(1);
                vec![next; len]
            };
            let data: Vec<_> = lens.into_iter().map(&mut data).collect();
            let all = data.concat();
            let (mut one, mut other) = (chunks(data.clone()), chunks(data));
            prop_assert_eq!(one.len(), all.len());
            let popped: Vec<Bytes> = std::iter::from_fn(|| one.pop()).collect();
            prop_assert_eq!(popped.concat(), &all[..]);
            prop_assert_eq!(other.whole(), &all[..]);
            prop_assert_eq!(other.len(), all.len());
        }
    }
}
