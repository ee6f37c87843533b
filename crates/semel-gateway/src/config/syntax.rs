//! Faults of the TOML itself, and which other faults they put in doubt.

use std::collections::BTreeSet;

use toml::de::{DeTable, Error};

use super::fault::{Found, Place};
use super::source::Source;

/// Where the file is not TOML. What was made of such a place is a guess.
#[derive(Debug, Default)]
pub(super) struct Broken {
    lines: BTreeSet<usize>,
    /// From this byte on, settings may have ended up in the wrong table.
    lost_from: Option<usize>,
}

/// Reads as much of the file as can be.
pub(super) fn parse<'a>(source: &Source<'a>, found: &mut Found) -> (DeTable<'a>, Broken) {
    let (table, errors) = DeTable::parse_recoverable(source.text);
    let mut broken = Broken::default();
    let mut errors: Vec<_> = errors.iter().map(|error| (place(error, source), error)).collect();
    errors.sort_by_key(|((start, end), _)| (*start, *end));
    for ((start, end), error) in errors {
        let line = source.line_number(start);
        // The first one in a line is the cause of the others.
        if broken.lines.insert(line) {
            let message = error.message();
            let (what, cure) = explained(message, start == end);
            found.add(Place::File(start, end), what, cure);
            if message.contains("unclosed") || source.line(line).trim_start().starts_with('[') {
                broken.lost_from = Some(broken.lost_from.unwrap_or(start).min(start));
            }
        }
    }
    (table.into_inner(), broken)
}

fn place(error: &Error, source: &Source<'_>) -> (usize, usize) {
    let span = error.span().unwrap_or_default();
    let end = source.text.trim_end().len();
    (span.start.min(end), span.end.min(end))
}

/// The parser's words in ours, with a cure.
fn explained(message: &str, is_nothing: bool) -> (String, &'static str) {
    let (what, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let is = |part: &str| what.contains(part);
    let fault = |what: &str, cure| (what.to_owned(), cure);
    let as_toml = "write it as TOML: NAME = VALUE, texts in quotes, [table] on a line of its own";
    match () {
        () if is("must be quoted") && is_nothing => fault("a value is missing", "write one here"),
        () if is("must be quoted") => fault("this is not a value", "put a text in quotes"),
        () if is("duplicate key") => fault("it is set twice", "keep one of them"),
        () if is("escape") => fault(
            "this is no escape",
            "write \\\\ for a backslash, or put the text in single quotes",
        ),
        () if is("key with no value") => fault(what, "write NAME = VALUE"),
        () if is("missing comma") => fault(what, "put a comma between the items"),
        () if is("basic string") || is("literal string") => fault(
            "this text has no end, or characters it cannot have",
            "write it on one line, in quotes",
        ),
        () if is("unclosed") => (format!("{what}: expected {expected}"), "close it"),
        () if expected.is_empty() => fault(what, as_toml),
        () => (format!("{what}: expected {expected}"), as_toml),
    }
}

// === impl Broken ===

impl Broken {
    /// Nothing of the file can be read.
    pub(super) fn everywhere() -> Self {
        Self { lines: BTreeSet::from([1]), lost_from: Some(0) }
    }

    /// Is there any such place?
    pub(super) fn is_any(&self) -> bool {
        !self.lines.is_empty()
    }

    /// May a fault at this place come from a wrong guess?
    pub(super) fn taints(&self, place: &Place, source: &Source<'_>) -> bool {
        match place {
            Place::Whole => self.is_any(),
            Place::File(start, _) => {
                let is_lost = self.lost_from.is_some_and(|from| *start >= from);
                is_lost || self.lines.contains(&source.line_number(*start))
            }
            Place::Variable(_) | Place::Flag(_) => false,
        }
    }
}
