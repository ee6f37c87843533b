//! Buffered log lines. The logging thread copies its line into a buffer; a writer thread writes many
//! lines at a time. If the reader of the log is too slow, lines are dropped and counted: a full pipe
//! must not stop the requests.

use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// The capacity of the buffer in bytes.
const WAITING_MAX: usize = 1 << 20;
/// How long the first line waits to be batched: one write and one wake-up for many lines.
const LINGER: Duration = Duration::from_millis(5);
/// How long the end of the process waits for the reader of the log.
const FINISH_MAX: Duration = Duration::from_secs(1);

/// A buffer of lines.
pub(crate) struct Lines {
    state: Mutex<State>,
    /// Wakes the writer thread.
    news: Condvar,
    /// Signals that everything is written.
    ended: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    dropped: u64,
    is_closing: bool,
    has_ended: bool,
}

// === impl Lines ===

impl Lines {
    /// Starts the thread that writes to `out`. It calls `on_dropped` with how many lines were lost.
    pub(crate) fn start(
        out: impl Write + Send + 'static,
        on_dropped: impl Fn(u64) + Send + 'static,
    ) -> Arc<Self> {
        let lines =
            Arc::new(Self { state: Mutex::default(), news: Condvar::new(), ended: Condvar::new() });
        let theirs = lines.clone();
        let thread = thread::Builder::new().name("semel-log".to_owned());
        if thread.spawn(move || theirs.write_out(out, on_dropped)).is_err() {
            // Without a thread there is no log, and `finish` must not wait for it.
            lines.lock().has_ended = true;
        }
        lines
    }

    /// Waits until everything is written, but not for ever.
    pub(crate) fn finish(&self) {
        let mut state = self.lock();
        state.is_closing = true;
        self.news.notify_one();
        // Either it is out, or its reader does not take it.
        let _ = self.ended.wait_timeout_while(state, FINISH_MAX, |state| !state.has_ended);
    }

    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.waiting.len() + line.len() > WAITING_MAX {
            state.dropped += 1;
            return;
        }
        let was_empty = state.waiting.is_empty();
        state.waiting.extend_from_slice(line);
        drop(state);
        // Only then the thread may be asleep.
        if was_empty {
            self.news.notify_one();
        }
    }

    fn write_out(&self, mut out: impl Write, on_dropped: impl Fn(u64)) {
        let mut batch = Vec::new();
        while let Some(dropped) = self.take(&mut batch) {
            // If the log's reader is gone, the gateway still serves.
            let _ = out.write_all(&batch).and_then(|()| out.flush());
            batch.clear();
            if dropped > 0 {
                on_dropped(dropped);
            }
        }
    }

    /// Waits for lines, and returns how many were dropped meanwhile; `None` at the end.
    fn take(&self, batch: &mut Vec<u8>) -> Option<u64> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_closing;
        let state = self.news.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let (mut state, _) = self
            .news
            .wait_timeout_while(state, LINGER, |state| !state.is_closing)
            .unwrap_or_else(PoisonError::into_inner);
        if state.waiting.is_empty() {
            state.has_ended = true;
            self.ended.notify_all();
            return None;
        }
        std::mem::swap(batch, &mut state.waiting);
        Some(std::mem::take(&mut state.dropped))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for &Lines {
    /// Buffers a complete line or drops it: no partial lines.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.push(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    /// Shows every write, and waits for a go-ahead after each.
    struct Slow {
        written: mpsc::Sender<Vec<u8>>,
        go: mpsc::Receiver<()>,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            self.go.recv().map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn slow() -> (Slow, mpsc::Receiver<Vec<u8>>, mpsc::Sender<()>) {
        let ((written, seen), (go, wait)) = (mpsc::channel(), mpsc::channel());
        (Slow { written, go: wait }, seen, go)
    }

    #[test]
    fn everything_is_out_when_it_ends() {
        let (slow, seen, go) = slow();
        for _ in 0..1_001 {
            go.send(()).unwrap();
        }
        let lines = Lines::start(slow, |_| {});
        for number in 0..1_000 {
            lines.push(format!("line {number}\n").as_bytes());
        }
        lines.finish();
        let text: Vec<u8> = seen.try_iter().flatten().collect();
        let expected: Vec<u8> =
            (0..1_000).flat_map(|n| format!("line {n}\n").into_bytes()).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn a_reader_that_stops_costs_lines_and_nothing_else() {
        let (slow, seen, go) = slow();
        let (dropped, counts) = mpsc::channel();
        let lines = Lines::start(slow, move |count| dropped.send(count).unwrap());
        lines.push(b"stuck\n");
        assert_eq!(seen.recv().unwrap(), b"stuck\n");
        for _ in 0..(WAITING_MAX / 1024) + 7 {
            lines.push(&[b'x'; 1024]);
        }
        go.send(()).unwrap();
        assert_eq!(seen.recv().unwrap().len(), WAITING_MAX);
        go.send(()).unwrap();
        assert_eq!(counts.recv().unwrap(), 7);
        lines.finish();
    }

    #[test]
    fn the_end_does_not_wait_for_ever() {
        let (slow, seen, _go) = slow();
        let lines = Lines::start(slow, |_| {});
        lines.push(b"stuck\n");
        assert_eq!(seen.recv().unwrap(), b"stuck\n");
        lines.finish();
    }
}
