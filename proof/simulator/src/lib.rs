//! A simulator of nodes, a store and a faulty network, all in one thread and from one seed.
//!
//! Several nodes, each an [`Engine`](semel_engine::Engine), share one store, whose state machine is the
//! real one of `semel-core` in the memory store of `semel-store`. Time, chance, the network, the store's
//! availability, the nodes' processes and the clients are simulated. An oracle with its own idea of the
//! protocol receives every verb, every execution and every answer, and names the rule that is broken.
//!
//! The same seed gives the same run, to the byte of its trace:
//!
//! ```
//! use semel_simulator::{Options, simulate};
//!
//! let options = Options { is_traced: true, ..Options::default() };
//! let (first, second) = (simulate(7, options), simulate(7, options));
//! assert!(first.violation.is_none());
//! assert_eq!(first.trace, second.trace);
//! ```
//!
//! Where what is decided:
//!
//! - `plan`: what a seed stands for: policies, clients, faults
//! - `run`: one run from its beginning to its end ([`simulate`]); `campaign`: many ([`Campaign`])
//! - `node`, `gate`: a node's process, which can be stopped and ended with all its tasks; `wakes`: in which
//!   order those go on
//! - `network`, `server`, `disk`: the store as a node sees it, as it is, and what it keeps
//! - `client`, `work`: the clients, and what is executed
//! - `trouble`: what goes wrong on a larger scale
//! - `oracle`: what must be true
//! - `mistake`: what can be planted to see that the oracle finds it ([`Mistake`])
//! - `world`, `clock`, `random`, `trace`: what all of these share

mod campaign;
mod client;
mod clock;
mod disk;
mod fault;
mod gate;
mod mistake;
mod network;
mod node;
mod oracle;
mod plan;
mod random;
mod run;
mod server;
mod statistics;
mod trace;
mod trouble;
mod violation;
mod wakes;
mod work;
mod world;

pub use campaign::{Campaign, Report};
pub use fault::Fault;
pub use mistake::Mistake;
pub use run::simulate;
pub use statistics::Statistics;
pub use violation::{Rule, Violation};

/// How seeds are run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A mistake to plant.
    pub mistake: Option<Mistake>,
    /// Whether the trace is written. It takes time and changes nothing else.
    pub is_traced: bool,
}

/// The result of a seed.
#[derive(Debug)]
pub struct Run {
    /// The seed.
    pub seed: u64,
    /// What happened.
    pub statistics: Statistics,
    /// The rule that was broken, if one was. The run ended there.
    pub violation: Option<Violation>,
    /// What happened, line by line, if the run was traced.
    pub trace: Option<String>,
}
