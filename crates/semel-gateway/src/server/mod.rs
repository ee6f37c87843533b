//! Serving clients: connections, their limits, and the threads they live on.

mod activity;
mod body;
mod connection;
mod entry;
mod listener;
mod stream;
pub(crate) mod tls;
mod workers;

pub(crate) use activity::Patience;
pub(crate) use body::ClientBody;
pub(crate) use connection::{Shared, Terms};
pub(crate) use listener::accept;
pub(crate) use workers::Workers;
