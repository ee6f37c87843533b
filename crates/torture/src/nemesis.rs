//! Breaks things and mends them, as the seed says: which fault, when, on whom, for how long.

mod kind;
mod schedule;
mod strike;

pub use kind::{Group, Kind};
pub(crate) use schedule::Terms;
pub use schedule::{Planned, Schedule};
pub(crate) use strike::Nemesis;
