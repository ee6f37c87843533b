//! The upstream's own log: an execution is on the disk before it is answered.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use anyhow::Context as _;
use tokio::sync::oneshot;

use crate::history::{Event, History, Line};

/// A sync that takes longer shows a machine that stands still, which leases may not outlast.
const STALL_MICROS: u64 = 500_000;

type Entry = (Event, Option<oneshot::Sender<()>>);

/// The log. A thread of its own writes it, and syncs once for all who wait.
#[derive(Debug)]
pub(super) struct EffectLog {
    entries: Sender<Entry>,
}

// === impl EffectLog ===

impl EffectLog {
    pub(super) fn create(path: &Path, history: History) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (entries, waiting) = channel();
        thread::spawn(move || write(file, &waiting, &history));
        Ok(Self { entries })
    }

    /// Writes down a beginning, which need not be synced.
    pub(super) fn begin(&self, event: Event) {
        let _ = self.entries.send((event, None));
    }

    /// Writes down an end, and waits until it is synced and in the history.
    pub(super) async fn end(&self, event: Event) {
        let (synced, is_synced) = oneshot::channel();
        let _ = self.entries.send((event, Some(synced)));
        let _ = is_synced.await;
    }
}

fn write(mut file: File, waiting: &Receiver<Entry>, history: &History) {
    while let Ok(first) = waiting.recv() {
        let group: Vec<Entry> = std::iter::once(first).chain(waiting.try_iter()).collect();
        let t = history.clock().now();
        let mut bytes = Vec::new();
        for (event, _) in &group {
            let line = Line { t, event: event.clone() };
            let _ = serde_json::to_writer(&mut bytes, &line);
            bytes.push(b'\n');
        }
        let written = file.write_all(&bytes).and_then(|()| file.sync_data());
        if let Err(error) = written {
            // Nothing is answered any more, so the run cannot be taken for a good one.
            eprintln!("the upstream's log cannot be written: {error}");
            return;
        }
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
}
