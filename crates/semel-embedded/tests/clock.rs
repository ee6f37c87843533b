//! Starts with a wrong clock: nothing expires, is deleted or stays in flight because of them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use semel_core::{
    Attempt, Claim, Fingerprint, Lease, Owner, Policy, RecordId, Reply, Settlement, Timestamp,
};
use semel_embedded::{EmbeddedStore, Options};
use semel_store::{Clock as _, ManualClock, Settled, SteadyClock, Store as _};
use tempfile::TempDir;

const DAY: Duration = Duration::from_hours(24);
const NOON: Timestamp = Timestamp::from_millis(1_700_000_000_000);

struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().expect("a directory") }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn mark(&self) -> PathBuf {
        self.path().join("clock")
    }

    fn open(&self, now: Timestamp) -> (EmbeddedStore, ManualClock) {
        let clock = ManualClock::at(now);
        let options = Options::new(self.path()).clock(Arc::new(clock.clone())).sweep_every(None);
        (options.open().expect("a store"), clock)
    }

    /// A store that was closed at noon, with a settled record.
    async fn with_a_charge() -> Self {
        let place = Self::new();
        let (store, _) = place.open(NOON);
        charge(&store, &claim(&store, 1, 1).await).await;
        place
    }
}

fn attempt(record: u8, owner: u128) -> Attempt {
    let fingerprint = Fingerprint::from_bytes([1; 32]);
    Attempt::new(RecordId::from_bytes([record; 32]), fingerprint, Owner::from_u128(owner))
}

async fn answer(store: &EmbeddedStore, record: u8, owner: u128) -> Claim {
    store.claim(&attempt(record, owner), &Policy::default()).await.expect("an answer")
}

async fn claim(store: &EmbeddedStore, record: u8, owner: u128) -> Lease {
    match answer(store, record, owner).await {
        Claim::Execute(lease) => lease,
        other => panic!("{other:?}"),
    }
}

async fn charge(store: &EmbeddedStore, lease: &Lease) {
    let settlement = Settlement::Completed(Reply::new("charged"));
    assert_eq!(store.settle(lease, settlement).await.expect("an answer"), Settled::Recorded);
}

async fn assert_replayed(store: &EmbeddedStore, record: u8) {
    let answer = answer(store, record, 99).await;
    assert!(matches!(answer, Claim::Replay { .. }), "{answer:?}");
    assert!(store.inspect(attempt(record, 99).id()).await.expect("readable").is_some());
}

async fn swept(store: &EmbeddedStore) -> usize {
    let swept = store.sweep(usize::MAX).await.expect("a sweep");
    assert!(!swept.more);
    swept.deleted
}

#[tokio::test]
async fn a_start_with_the_clock_ahead_deletes_nothing() {
    let place = Place::with_a_charge().await;
    let (wrong, _) = place.open(NOON.plus(DAY * 2));
    assert_eq!(swept(&wrong).await, 0);
    assert_replayed(&wrong, 1).await;
    drop(wrong);
    let (right, _) = place.open(NOON.plus(Duration::from_mins(1)));
    assert_replayed(&right, 1).await;
}

/// The thread in the background is held to the same.
#[tokio::test]
async fn the_background_sweep_deletes_nothing_at_a_wrong_start() {
    let place = Place::with_a_charge().await;
    let clock = ManualClock::at(NOON.plus(DAY * 2));
    let wrong = Options::new(place.path())
        .clock(Arc::new(clock))
        .sweep_every(Some(Duration::from_millis(1)))
        .open()
        .unwrap();
    // Enough time for many passes: each claim waits for a sync.
    for record in 10..60 {
        charge(&wrong, &claim(&wrong, record, 1).await).await;
    }
    drop(wrong);
    let (right, _) = place.open(NOON.plus(Duration::from_mins(1)));
    assert_replayed(&right, 1).await;
}

/// The clock was right, and the store really closed for two days: records live on for what they had
/// left, and are swept after that.
#[tokio::test]
async fn a_store_that_was_closed_for_long_forgets_later() {
    let place = Place::with_a_charge().await;
    let (store, clock) = place.open(NOON.plus(DAY * 2));
    clock.advance(Duration::from_secs(86_399));
    assert_eq!(swept(&store).await, 0);
    assert_replayed(&store, 1).await;
    clock.advance(Duration::from_secs(1));
    assert_eq!(swept(&store).await, 1);
    assert!(matches!(answer(&store, 1, 7).await, Claim::Execute(_)));
}

#[tokio::test]
async fn a_short_time_closed_counts() {
    let place = Place::new();
    let (store, clock) = place.open(NOON);
    charge(&store, &claim(&store, 1, 1).await).await;
    clock.advance(Duration::from_mins(1_410));
    drop(store);
    let (store, _) = place.open(NOON.plus(DAY));
    assert_eq!(swept(&store).await, 1);
}

/// The record of a crashed process is in flight for its lease, whatever the clock showed before or shows
/// now.
#[tokio::test]
async fn a_record_of_a_dead_process_is_free_after_its_lease() {
    let day_before = Timestamp::from_millis(NOON.as_millis() - 2 * 86_400_000);
    let starts = [
        [NOON, day_before],
        [NOON, NOON.plus(DAY * 2)],
        [NOON.plus(DAY * 2), NOON.plus(Duration::from_mins(1))],
    ];
    for [dies, next] in starts {
        let place = Place::with_a_charge().await;
        let (store, _) = place.open(dies);
        drop(claim(&store, 2, 1).await);
        drop(store);
        let (store, clock) = place.open(next);
        let at_once = answer(&store, 2, 2).await;
        assert!(matches!(at_once, Claim::InFlight { .. }), "{dies}, {next}: {at_once:?}");
        clock.advance(Policy::default().lease());
        let later = answer(&store, 2, 2).await;
        assert!(matches!(later, Claim::Execute(_)), "{dies}, {next}: {later:?}");
        assert_replayed(&store, 1).await;
    }
}

/// A lease that was moved is written where it belongs, and not moved again.
#[tokio::test]
async fn a_record_written_after_a_leap_is_read_as_written() {
    let place = Place::new();
    let (store, _) = place.open(NOON);
    drop(claim(&store, 1, 1).await);
    drop(store);
    let (store, clock) = place.open(NOON.plus(DAY * 2));
    clock.advance(Policy::default().lease());
    let lease = claim(&store, 1, 2).await;
    assert_eq!(lease.fence().get(), 2);
    charge(&store, &lease).await;
    clock.advance(DAY * 2);
    assert!(store.inspect(lease.id()).await.unwrap().is_none(), "kept for longer than its ttl");
}

fn damage(mark: &Path) {
    let text = std::fs::read_to_string(mark).expect("a mark");
    std::fs::write(mark, text.replace("clock 1", "clock 2")).expect("written");
}

/// Directories of older versions have no mark, and one may be lost.
#[tokio::test]
async fn a_store_without_a_mark_opens_and_gets_one() {
    for spoil in [|mark: &Path| std::fs::remove_file(mark).expect("gone"), damage] {
        let place = Place::with_a_charge().await;
        spoil(&place.mark());
        drop(place.open(NOON.plus(Duration::from_hours(2))));
        let (wrong, _) = place.open(NOON.plus(DAY * 2));
        assert_replayed(&wrong, 1).await;
    }
}

/// Closed for a weekend; later a clock that is a little behind.
#[tokio::test]
async fn a_small_step_back_after_a_long_pause_revives_no_lease() {
    let place = Place::with_a_charge().await;
    let (store, clock) = place.open(NOON.plus(Duration::from_hours(60)));
    drop(claim(&store, 2, 1).await);
    clock.advance(Duration::from_hours(21));
    let last_use = clock.now();
    drop(store);
    let nine_minutes_before = Timestamp::from_millis(last_use.as_millis() - 540_000);
    let (store, _) = place.open(nine_minutes_before);
    let answer = answer(&store, 2, 2).await;
    assert!(matches!(answer, Claim::Execute(_)), "{answer:?}");
}

/// An older version, which knows no mark, had the directory for three days.
#[tokio::test]
async fn a_lease_that_lapsed_while_the_mark_stood_still_is_free() {
    let place = Place::with_a_charge().await;
    let mark = std::fs::read_to_string(place.mark()).expect("a mark");
    let (store, _) = place.open(NOON.plus(DAY * 2));
    drop(claim(&store, 2, 1).await);
    drop(store);
    std::fs::write(place.mark(), mark).expect("written");
    let three_days_ago = std::fs::metadata(place.mark()).unwrap().modified().unwrap() - DAY * 3;
    set_modified(&place.mark(), three_days_ago);
    let (store, _) = place.open(NOON.plus(DAY * 3));
    let answer = answer(&store, 2, 2).await;
    assert!(matches!(answer, Claim::Execute(_)), "{answer:?}");
    assert_replayed(&store, 1).await;
}

fn set_modified(path: &Path, time: SystemTime) {
    let file = std::fs::File::options().write(true).open(path).expect("a file");
    file.set_modified(time).expect("a time");
}

/// The first start of this version, on a directory of an older one, has its clock two days ahead.
#[tokio::test]
async fn a_wrong_first_start_on_an_old_directory_deletes_nothing() {
    assert_old_directory_outlives_a_wrong_start(|_| {}).await;
}

/// The times of its files are of no use either.
#[tokio::test]
async fn a_wrong_first_start_on_a_copy_from_the_future_deletes_nothing() {
    assert_old_directory_outlives_a_wrong_start(|place| {
        let time = std::fs::metadata(place.path()).unwrap().modified().unwrap() + DAY * 30;
        set_modified(&place.path().join("engine/0.jnl"), time);
    })
    .await;
}

async fn assert_old_directory_outlives_a_wrong_start(prepare: impl FnOnce(&Place)) {
    let now = SteadyClock::start().now();
    let place = Place::new();
    let (store, _) = place.open(now);
    charge(&store, &claim(&store, 1, 1).await).await;
    drop(store);
    std::fs::remove_file(place.mark()).expect("gone");
    prepare(&place);
    let options = Options::new(place.path()).sweep_every(Some(Duration::from_millis(1)));
    let wrong = options.clock(Arc::new(ManualClock::at(now.plus(DAY * 2)))).open();
    let wrong = wrong.expect("a store");
    for record in 10..60 {
        charge(&wrong, &claim(&wrong, record, 1).await).await;
    }
    drop(wrong);
    let (right, _) = place.open(now.plus(Duration::from_mins(1)));
    assert_replayed(&right, 1).await;
}
