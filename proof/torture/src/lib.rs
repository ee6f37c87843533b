//! Fault runs: gateways, clients and an upstream under faults, a history of all that happened, and a
//! checker that says whether it may have.
//!
//! - [`run`] makes one run out of one seed.
//! - [`history`] is what is written down, a line of JSON each.
//! - [`checker`] reads such a history and names every invariant that it breaks.
//! - [`proxy`] is a network that can be broken.
//!
//! For tests only, and for Linux.

pub mod checker;
mod clients;
mod digest;
mod effects;
mod fleet;
pub mod history;
mod ledger;
mod nemesis;
mod program;
pub mod proxy;
pub mod rng;
pub mod run;
mod stop;
mod stores;
mod time;

pub use ledger::{Ledger, Terms, Totals};
pub use nemesis::{Group, Kind, Planned, Schedule};
pub use program::{build, build_with_bugs, version};
pub use stop::{is_stopped, listen as stop_on_signals};
pub use stores::StoreKind;
pub use time::Clock as Stopwatch;
