//! Writing a history while it happens.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use anyhow::Context as _;

use super::{Event, Line};
use crate::time::Clock;

/// The file of a history that is being written. A thread of its own writes it.
#[derive(Debug)]
pub struct HistoryFile {
    path: PathBuf,
    writer: JoinHandle<anyhow::Result<()>>,
}

/// Where events are written down. Clones write to the same file.
#[derive(Clone, Debug)]
pub(crate) struct History {
    clock: Clock,
    lines: Sender<Line>,
}

// === impl HistoryFile ===

impl HistoryFile {
    /// A new file; and what writes to it. The file is whole when all of these are dropped.
    pub(crate) fn create(path: &Path, clock: Clock) -> anyhow::Result<(Self, History)> {
        let file =
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let (send, lines) = channel();
        let writer = thread::spawn(move || write(file, &lines));
        Ok((Self { path: path.to_owned(), writer }, History { clock, lines: send }))
    }

    /// Waits until all is written.
    pub fn finish(self) -> anyhow::Result<PathBuf> {
        let written = self.writer.join().map_err(|_| anyhow::anyhow!("the writer panicked"))?;
        written.with_context(|| format!("writing {}", self.path.display()))?;
        Ok(self.path)
    }
}

fn write(file: File, lines: &Receiver<Line>) -> anyhow::Result<()> {
    let mut file = BufWriter::with_capacity(1 << 16, file);
    while let Ok(line) = lines.recv() {
        serde_json::to_writer(&mut file, &line)?;
        file.write_all(b"\n")?;
    }
    file.flush()?;
    Ok(())
}

// === impl History ===

impl History {
    /// Writes down what happens now; when that is.
    pub(crate) fn note(&self, event: Event) -> u64 {
        let t = self.clock.now();
        // If the writer has failed, the run says so when it finishes the file.
        let _ = self.lines.send(Line { t, event });
        t
    }

    /// Records an unplanned fault, which is only detected after it began; returns its number.
    pub(crate) fn note_unplanned(&self, t: u64, kind: &str, note: String) -> u64 {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let event = Event::Fault { id, kind: kind.to_owned(), hits: Vec::new(), near: false, note };
        let _ = self.lines.send(Line { t, event });
        id
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }
}
