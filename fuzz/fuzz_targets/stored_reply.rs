//! Any bytes as a stored reply.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use semel_http::{StoredBody, StoredReply};

/// Remembers the largest piece of memory that was asked for. The fuzzer's own limit sees only what
/// was written to.
struct Watched;

static LARGEST: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static WATCHED: Watched = Watched;

// SAFETY: All is passed on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LARGEST.fetch_max(layout.size(), Relaxed);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LARGEST.fetch_max(size, Relaxed);
        unsafe { System.realloc(pointer, layout, size) }
    }
}

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    LARGEST.store(0, Relaxed);
    let decoded = StoredReply::decode(&bytes);
    let largest = LARGEST.load(Relaxed);
    // LZ4 makes no more than 255 bytes of one.
    assert!(largest <= 1_024 + 256 * data.len(), "{largest} bytes for {}", data.len());

    let Ok(reply) = decoded else { return };
    let encoded = reply.encode();
    assert_eq!(StoredReply::decode(&encoded).as_ref(), Ok(&reply));
    // What is written once is written in the same way again.
    assert_eq!(reply.clone().encode(), encoded);
    if let StoredBody::Kept(body) = &reply.body {
        assert!(!format!("{reply:?}").contains("Kept(b"), "{} bytes told", body.len());
    }
});
