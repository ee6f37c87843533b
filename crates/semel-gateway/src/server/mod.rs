//! Serving clients: letting them in, the threads that serve them, and HTTP on their connections.

mod connection;
mod entry;
mod http2;
mod listener;
mod workers;

pub(crate) use connection::Shared;
pub(crate) use listener::{Acceptor, listen};
pub(crate) use workers::Workers;
