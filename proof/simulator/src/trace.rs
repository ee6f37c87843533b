use std::fmt::{self, Write as _};
use std::time::Duration;

/// The events as lines of text: simulated time, source, event.
///
/// Written only on request. It never draws from the run's random numbers, so a run is the same either way.
#[derive(Debug)]
pub(crate) struct Trace {
    text: Option<String>,
    lines: u64,
}

/// The source of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Simulator,
    Store,
    Node(usize),
    Client(usize),
}

// === impl Trace ===

impl Trace {
    pub(crate) fn new(is_written: bool) -> Self {
        Self { text: is_written.then(String::new), lines: 0 }
    }

    pub(crate) fn note(&mut self, at: Duration, source: Source, what: fmt::Arguments<'_>) {
        self.lines += 1;
        if let Some(text) = &mut self.text {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{:>6}.{:03} {source} {what}", at.as_secs(), at.subsec_millis());
        }
    }

    pub(crate) const fn lines(&self) -> u64 {
        self.lines
    }

    pub(crate) fn into_text(self) -> Option<String> {
        self.text
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Simulator => f.write_str("simulator"),
            Self::Store => f.write_str("store"),
            Self::Node(number) => write!(f, "node-{number}"),
            Self::Client(number) => write!(f, "client-{number}"),
        }
    }
}
