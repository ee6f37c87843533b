//! The upstream's own log: an execution is on the disk before it is answered.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::history::{Event, History, Line};

/// A sync that takes longer shows a machine that stands still, which leases may not outlast.
const STALL_MICROS: u64 = 500_000;

type Entry = (Event, Option<oneshot::Sender<()>>);

/// The log file while it is written. A thread of its own writes it, and syncs once for all waiting executions.
#[derive(Debug)]
pub(crate) struct EffectFile {
    path: PathBuf,
    writer: JoinHandle<anyhow::Result<()>>,
}

/// Where executions are written down.
#[derive(Debug)]
pub(crate) struct EffectLog {
    entries: Sender<Entry>,
}

/// An end that is not on the disk, so that it must not be answered.
#[derive(Debug)]
pub(super) struct NotSynced;

// === impl EffectFile ===

impl EffectFile {
    /// A new file; and what writes to it. The file is whole when that is dropped.
    pub(crate) fn create(path: &Path, history: History) -> anyhow::Result<(Self, EffectLog)> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (entries, waiting) = channel();
        let writer = thread::spawn(move || write(file, &waiting, &history));
        Ok((Self { path: path.to_owned(), writer }, EffectLog { entries }))
    }

    /// Waits until all is written. Fails if something could not be.
    pub(crate) fn finish(self) -> anyhow::Result<PathBuf> {
        let written = self.writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        written.context("the upstream's log cannot be written")?;
        Ok(self.path)
    }
}

// === impl EffectLog ===

impl EffectLog {
    /// Writes down a beginning, which need not be synced.
    pub(super) fn begin(&self, event: Event) {
        // If the writer has failed, the run says so when it finishes the file.
        let _ = self.entries.send((event, None));
    }

    /// Writes down an end, and waits until it is synced and in the history.
    pub(super) async fn end(&self, event: Event) -> Result<(), NotSynced> {
        let (synced, is_synced) = oneshot::channel();
        self.entries.send((event, Some(synced))).map_err(|_| NotSynced)?;
        is_synced.await.map_err(|_| NotSynced)
    }
}

/// Ends at the first failure: from then on no end is synced, and nothing is answered.
fn write(
    mut file: impl Synced,
    waiting: &Receiver<Entry>,
    history: &History,
) -> anyhow::Result<()> {
    while let Ok(first) = waiting.recv() {
        let group: Vec<Entry> = std::iter::once(first).chain(waiting.try_iter()).collect();
        let t = history.clock().now();
        let mut bytes = Vec::new();
        for (event, _) in &group {
            serde_json::to_writer(&mut bytes, &Line { t, event: event.clone() })?;
            bytes.push(b'\n');
        }
        file.append(&bytes)?;
        let took = history.clock().now() - t;
        if took > STALL_MICROS {
            crate::run::note_stall(history, t, "a sync of the upstream's log");
        }
        for (event, synced) in group {
            if let Some(synced) = synced {
                history.note(event);
                let _ = synced.send(());
            }
        }
    }
    Ok(())
}

/// What survives a crash once it is appended.
trait Synced {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()>;
}

impl Synced for File {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.write_all(bytes)?;
        self.sync_data()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::HistoryFile;
    use crate::time::Clock;

    struct Full;

    impl Synced for Full {
        fn append(&mut self, _: &[u8]) -> std::io::Result<()> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
    }

    #[tokio::test]
    async fn an_end_that_cannot_be_synced_is_neither_acknowledged_nor_in_the_history() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("history.jsonl");
        let (file, history) = HistoryFile::create(&path, Clock::start()).expect("a history");
        let (entries, waiting) = channel();
        let writer = thread::spawn(move || write(Full, &waiting, &history));
        let log = EffectLog { entries };
        for _ in 0..2 {
            let (nonce, digest) = ("n1".to_owned(), String::new());
            log.end(Event::End { nonce, status: 201, digest }).await.expect_err("the disk is full");
        }
        writer.join().expect("no panic").expect_err("the disk is full");
        let written = file.finish().expect("a history");
        assert_eq!(std::fs::read_to_string(written).expect("read"), "");
    }
}
