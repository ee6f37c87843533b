//! Injects faults and removes them, as drawn from the seed: kind, time, target, duration.

mod kind;
mod schedule;
mod strike;

pub use kind::{Group, Kind};
pub(crate) use schedule::Terms;
pub use schedule::{Planned, Schedule};
pub(crate) use strike::Nemesis;
