//! What the tests share: the gateway as a process, a raw upstream and raw clients that keep to the
//! letter of HTTP/1.1, and waiting with a deadline.

mod certificates;
mod client;
mod gateway;
mod http2;
mod line;
mod message;
mod requests;
mod upstream;
mod waiting;

pub(crate) use certificates::Authority;
pub(crate) use client::{Client, Reply};
pub(crate) use gateway::Gateway;
pub(crate) use http2::Http2;
pub(crate) use line::Line;
pub(crate) use message::Framing;
pub(crate) use requests::{get, post, put, with_body};
pub(crate) use upstream::{After, Gate, Seen, Upstream, answer};
pub(crate) use waiting::{LIMIT, Watch, eventually};
