//! What happened in a run: a file with one event per line, in JSON, written while it happens.
//!
//! The first line says what the run was ([`Head`]). Times are microseconds since the run began, by one
//! clock for all.

mod event;
mod writer;

pub use event::{Effect, Event, Head, Line, Purpose, Route, Tier, Wish};
pub(crate) use writer::History;
pub use writer::HistoryFile;
