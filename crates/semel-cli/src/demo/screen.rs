//! What is shown while the demo runs: notes, and below them one line that changes in place.

use std::io::{self, IsTerminal as _, Write as _};

/// Standard output.
pub(super) struct Screen {
    is_terminal: bool,
    shown: String,
}

/// Back to the start of the line, and clear it.
const ERASE: &str = "\r\x1b[2K";
/// A line that is too long is cut at the edge: one that goes on below could not be erased.
const CUT: (&str, &str) = ("\x1b[?7l", "\x1b[?7h");

// === impl Screen ===

impl Screen {
    pub(super) fn new() -> Self {
        Self { is_terminal: io::stdout().is_terminal(), shown: String::new() }
    }

    /// Shows the line: in place on a terminal, else as a new one. Nothing happens if it is the same.
    pub(super) fn update(&mut self, line: String) {
        if line == self.shown {
            return;
        }
        if self.is_terminal {
            write(&format!("{ERASE}{}{line}{}", CUT.0, CUT.1));
        } else {
            write(&format!("{line}\n"));
        }
        self.shown = line;
    }

    /// A text that stays, above the line.
    pub(super) fn note(&mut self, text: &str) {
        if self.is_terminal {
            write(&format!("{ERASE}{text}\n{}{}{}", CUT.0, self.shown, CUT.1));
        } else {
            write(&format!("{text}\n"));
        }
    }

    /// Leaves the line as it is.
    pub(super) fn finish(&mut self) {
        if self.is_terminal && !self.shown.is_empty() {
            write("\n");
        }
        self.shown.clear();
    }
}

pub(super) fn write(text: &str) {
    // If standard output is closed, the demo goes on.
    let mut out = io::stdout();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
