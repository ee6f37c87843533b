//! The embedded store keeps the contract, in both kinds of durability.

use std::sync::Arc;
use std::time::Duration;

use semel_core::Timestamp;
use semel_embedded::{Durability, EmbeddedStore, Options};
use semel_store::conformance::{Fixture, FixtureClock};
use semel_store::{ManualClock, store_conformance};
use tempfile::TempDir;

struct Embedded<const POWER: bool> {
    // Dropped before its directory.
    store: EmbeddedStore,
    clock: ManualClock,
    directory: TempDir,
}

impl<const POWER: bool> Embedded<POWER> {
    fn open(directory: TempDir, clock: ManualClock) -> Self {
        let durability = if POWER { Durability::Power } else { Durability::Process };
        let store = Options::new(directory.path())
            .durability(durability)
            .clock(Arc::new(clock.clone()))
            .sweep_every(None)
            .open()
            .expect("the store opens");
        Self { store, clock, directory }
    }
}

impl<const POWER: bool> Fixture for Embedded<POWER> {
    type Store = EmbeddedStore;
    const DURABLE: bool = true;
    const CLOCK: FixtureClock = FixtureClock::Manual;
    const UNIT: Duration = Duration::from_secs(1);

    async fn make() -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
        Self::open(tempfile::tempdir().expect("a directory"), clock)
    }

    fn store(&self) -> &EmbeddedStore {
        &self.store
    }

    async fn advance(&self, duration: Duration) {
        self.clock.advance(duration);
    }

    async fn reopen(self) -> Self {
        let Self { store, clock, directory } = self;
        drop(store);
        Self::open(directory, clock)
    }
}

store_conformance!(power, Embedded<true>);
store_conformance!(process, Embedded<false>);
