//! The settings of fjall and of the commit queue, each with its reason. Measured with `bench/`; see
//! `docs/decisions/` for the figures.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
    PartitioningPolicy, PinningPolicy,
};
use fjall::{CompressionType, Database, DatabaseBuilder, KeyspaceCreateOptions};

/// How many tables stay open, unless the options say otherwise.
pub(crate) const OPEN_TABLES_MAX: usize = 400;

/// Fjall stops all writes at four memtables that wait to be written out; we stop before that,
/// because it would never go on if its workers had died.
pub(crate) const SEALED_MAX: usize = 3;

/// Fjall slows writes down at 20 fresh tables and stops them at 30; we stop before that.
pub(crate) const FRESH_TABLES_MAX: usize = 18;

/// All writes wait while a memtable is freed after its flush, the longer the larger it is; and a small
/// one stays in the processor's caches.
pub(crate) const MEMTABLE_BYTES: u64 = 32 << 20;

/// How many fresh tables are merged at a time.
const FRESH_TABLES_MERGED: u8 = 8;

/// How long a batch waits for fjall to catch up before it is refused.
pub(crate) const STALL_TIMEOUT_MS: u32 = 5_000;

/// After a full disk, writing goes on only when there is this much space beyond what is needed.
pub(crate) const SPARE_BYTES: u64 = 4 << 20;

/// The database is reopened only when so many files can be opened: readers keep the failed one otherwise.
pub(crate) const SPARE_DESCRIPTORS: usize = 24;

/// For how long after a failure of writing a lease counts that was live when it began: holders that
/// renew at a third of the default lease, or try again every few seconds, are back by then.
pub(crate) const OUTAGE_GRACE: Duration = Duration::from_secs(10);

/// A start that is ahead of the mark by more than this may be wrong; a shorter time closed is ordinary.
pub(crate) const CLOCK_LEAP: Duration = Duration::from_hours(1);

/// How far apart two readings may be that agree.
pub(crate) const CLOCK_SLACK: Duration = Duration::from_mins(5);

/// How long nothing is swept after a start with an implausible time.
pub(crate) const SWEEP_DELAY_AFTER_CLOCK_WARNING: Duration = Duration::from_hours(1);

/// How many leaps of the clock are remembered.
pub(crate) const CLOCK_LEAPS_MAX: usize = 8;

/// How often the mark of the clock is kept: much more often than a leap is long.
pub(crate) const MARK_EVERY: Duration = Duration::from_mins(1);

/// The least capacity that a batch is allocated with.
pub(crate) const BATCH_CAPACITY_MIN: usize = 4;

/// How many batches a caller writes itself, its own included, before the committer takes over.
pub(crate) const INLINE_BATCHES_MAX: usize = 4;

/// The most operations that wait to become durable; further ones wait for a permit.
pub(crate) const OPERATIONS_MAX: usize = 4_096;

/// How often an operation reads its record again because others were faster.
pub(crate) const READS_MAX: usize = 16;

/// How many written records are kept in memory, so that a settle soon after its claim, or a claim that
/// was read ahead, need not read the database again.
pub(crate) const RECENT_MAX: usize = 8_192;

/// How much their replies may take.
pub(crate) const RECENT_BYTES_MAX: usize = 8 << 20;

/// How many records one step of a sweep looks at.
pub(crate) const SWEEP_SCAN: usize = 1_024;

/// How many records a step of the background sweep deletes at most: a small part of the time that
/// a batch takes anyway.
pub(crate) const SWEEP_DELETE: usize = 128;

/// Rest after a step that deleted something. Together they keep up with 50,000 claims a second.
pub(crate) const SWEEP_REST: Duration = Duration::from_millis(1);

/// Rest after a step that only looked.
pub(crate) const SWEEP_REST_IDLE: Duration = Duration::from_millis(5);

pub(crate) fn database(
    path: &Path,
    cache_bytes: u64,
    open_tables_max: usize,
) -> DatabaseBuilder<Database> {
    Database::builder(path)
        .cache_size(cache_bytes)
        .max_cached_files(Some(open_tables_max))
        // Each batch has its own durability.
        .manual_journal_persist(true)
        // With one worker fjall can deadlock, and with two the first one spins while
        // the second compacts; from three on neither happens.
        .worker_threads(3)
        // The check of the log refuses packed values, so compression is off whatever fjall's features
        // are.
        .journal_compression(CompressionType::None)
        // Less log to read again after a crash.
        .max_journaling_size(256 << 20)
}

pub(crate) fn records(memtable_bytes: u64) -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .manual_journal_persist(true)
        .max_memtable_size(memtable_bytes)
        // Records are small and read one at a time: small blocks, and no unpacking.
        .data_block_size_policy(BlockSizePolicy::all(2 << 10))
        .data_block_compression_policy(CompressionPolicy::disabled())
        // Most claims are on fresh keys: filters that answer them without touching a block.
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(
            BloomConstructionPolicy::BitsPerKey(16.0),
        )))
        .filter_block_pinning_policy(PinningPolicy::all(true))
        .filter_block_partitioning_policy(PartitioningPolicy::all(false))
        .index_block_pinning_policy(PinningPolicy::all(true))
        .index_block_partitioning_policy(PartitioningPolicy::all(false))
        .expect_point_read_hits(false)
        // Ids are random, so each merge of fresh tables rewrites the whole level below: merge
        // seldom. The filters make up for the number of tables.
        .compaction_strategy(Arc::new(Leveled::default().with_l0_threshold(FRESH_TABLES_MERGED)))
}
