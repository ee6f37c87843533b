//! Serving clients: connections, their limits, and the threads they live on.

mod activity;
mod body;
mod connection;
mod entry;
mod listener;
mod stream;
mod streams;
pub(crate) mod tls;
mod watch;
mod workers;

pub(crate) use activity::{Activity, Kind, Patience};
pub(crate) use body::{ClientBody, ClientError};
pub(crate) use connection::{Shared, Terms};
pub(crate) use listener::{accept, listen};
pub(crate) use watch::now;
pub(crate) use workers::{Place, Workers};
