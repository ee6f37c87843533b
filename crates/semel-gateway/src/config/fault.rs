//! What is wrong with a configuration: all of it, each fault with its place and its cure.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;

use super::source::{Snippet, Source, masked, plain};

/// Everything that is wrong with a configuration, in the order of the file, then of environment
/// variables, then of flags. Displayed as a compiler would.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Faults {
    faults: Vec<Fault>,
    left_out: usize,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    at: String,
    what: String,
    cure: String,
    snippet: Option<Snippet>,
}

/// Where something was written. The order is that in which faults are reported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// No place of its own: it is missing.
    Whole,
    /// From one byte of the file to another.
    File(usize, usize),
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

/// What is wrong with a value, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Wrong {
    pub(super) what: String,
    pub(super) cure: String,
}

/// Faults as they are found, in any order. The same one found twice counts once.
#[derive(Debug, Default)]
pub(super) struct Found {
    faults: BTreeSet<(Place, Wrong)>,
    /// Where the file has values that may be secret: lines are shown without them.
    hidden: Vec<Range<usize>>,
}

/// A file of faults needs no thousand explanations.
const REPORTED_MAX: usize = 100;

// === impl Faults ===

impl Faults {
    /// The faults, at most a hundred of them.
    pub fn iter(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter()
    }

    /// How many there are.
    #[expect(clippy::len_without_is_empty, reason = "there is always one")]
    pub fn len(&self) -> usize {
        self.faults.len() + self.left_out
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, fault) in self.faults.iter().enumerate() {
            let gap = if number == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{fault}")?;
        }
        match self.left_out {
            0 => Ok(()),
            more => write!(f, "\n\nand {more} more"),
        }
    }
}

impl std::error::Error for Faults {}

// === impl Fault ===

impl Fault {
    /// `FILE:LINE:COLUMN`, the name of an environment variable, or that of a flag.
    pub fn at(&self) -> &str {
        &self.at
    }

    /// What is wrong.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// What to do about it.
    pub fn cure(&self) -> &str {
        &self.cure
    }

    fn new(
        place: Place,
        wrong: &Wrong,
        source: Option<&Source<'_>>,
        hidden: &[Range<usize>],
    ) -> Self {
        let (at, snippet) = match (place, source) {
            (Place::Variable(name), _) => (name, None),
            (Place::Flag(name), _) => (name.to_owned(), None),
            (Place::File(start, end), Some(source)) => {
                let snippet = source.snippet(start, end, hidden);
                (format!("{}:{}:{}", source.name, snippet.line, snippet.column), Some(snippet))
            }
            (Place::Whole, Some(source)) => (source.name.to_owned(), None),
            (Place::Whole | Place::File(..), None) => ("configuration".to_owned(), None),
        };
        let plain_text = |text: &str| text.chars().map(plain).collect();
        // A cure has nothing of what was written, but may show how a password is written.
        Self {
            at: plain_text(&at),
            what: plain_text(&masked(&wrong.what)),
            cure: plain_text(&wrong.cure),
            snippet,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.at, self.what)?;
        if let Some(snippet) = &self.snippet {
            writeln!(f, "{snippet}")?;
        }
        write!(f, "    cure: {}", self.cure)
    }
}

// === impl Place ===

impl Place {
    pub(super) fn of(span: &Range<usize>) -> Self {
        Self::File(span.start, span.end)
    }
}

// === impl Wrong ===

impl Wrong {
    pub(super) fn new(what: impl Into<String>, cure: impl Into<String>) -> Self {
        Self { what: what.into(), cure: cure.into() }
    }
}

// === impl Found ===

impl Found {
    pub(super) fn add(&mut self, place: Place, what: impl Into<String>, cure: impl Into<String>) {
        self.faults.insert((place, Wrong::new(what, cure)));
    }

    /// Whatever is wrong, what stands here is not to be shown.
    pub(super) fn hide(&mut self, place: &Place) {
        if let Place::File(start, end) = place {
            self.hidden.push(*start..*end);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Takes out what does not pass.
    pub(super) fn retain(&mut self, keep: impl Fn(&Place) -> bool) {
        self.faults.retain(|(place, _)| keep(place));
    }

    pub(super) fn extend(&mut self, other: Self) {
        self.faults.extend(other.faults);
        self.hidden.extend(other.hidden);
    }

    pub(super) fn into_faults(self, source: Option<&Source<'_>>) -> Faults {
        let left_out = self.faults.len().saturating_sub(REPORTED_MAX);
        let reported = self.faults.into_iter().take(REPORTED_MAX);
        let fault = |(place, wrong)| Fault::new(place, &wrong, source, &self.hidden);
        Faults { faults: reported.map(fault).collect(), left_out }
    }
}
