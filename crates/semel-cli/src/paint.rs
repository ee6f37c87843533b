//! Colour on terminals.

use std::io::IsTerminal as _;

/// Paints texts, or leaves them plain: output must read the same without colour.
#[derive(Clone, Copy)]
pub(crate) struct Paint {
    colour: bool,
}

// === impl Paint ===

impl Paint {
    /// Colour on a terminal, unless `NO_COLOR` is set.
    pub(crate) fn for_stdout() -> Self {
        Self { colour: !is_refused() && std::io::stdout().is_terminal() }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub(crate) fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    pub(crate) fn notable(self, text: &str) -> String {
        self.with("33", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// True if `NO_COLOR` is set.
pub(crate) fn is_refused() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}
