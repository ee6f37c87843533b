//! One harness for all that starts the gateway as a process: end-to-end tests, and parts of it for fault runs and
//! benchmarks. It panics as tests do, and depends on no crate of the product. Linux only.
//!
//! - [`Setup`] and [`Gateway`]: the program on free ports in a directory of its own, started again, signalled, killed.
//! - [`Process`], [`Lines`] and [`Ended`]: other programs, and commands that end by themselves.
//! - [`Upstream`]: an API that answers as the test says and remembers all that it saw; [`Gate`] holds it up.
//! - [`Call`] and [`Answer`]: a client of HTTP/1.1; [`Line`]: the bytes of a connection.
//! - [`eventually`]: waiting for conditions.
//!
//! The program is passed in: only a test target of the package `semel-cli` knows its path.
//!
//! Fault runs take [`Addresses`], [`get`] and [`without_settings`] and keep processes of their own: a run ends early
//! by a signal, gateways die with it, and their logs outlive them. So do benchmarks: no thread of the harness may read a
//! log while they measure, and nginx and other subjects are started in the same way.

mod answer;
mod call;
mod command;
mod gate;
mod gateway;
mod line;
mod message;
mod metrics;
mod process;
mod reply;
mod setup;
mod upstream;
mod waiting;

pub use answer::Answer;
pub use call::{Call, Pending, get};
pub use command::{Ended, semel, without_settings};
pub use gate::Gate;
pub use gateway::{Addresses, Gateway};
pub use line::{Io, Line, broke_off};
pub use message::{Fields, Framing};
pub use metrics::Metrics;
pub use process::{Lines, Process};
pub use reply::Reply;
pub use setup::Setup;
pub use upstream::{After, Connection, Seen, Upstream, answer};
pub use waiting::{PATIENCE, eventually, eventually_within, now};
