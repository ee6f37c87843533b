//! The gateway at the level of bytes: the real binary between raw clients and a raw upstream.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod cases;
mod connection_limit;
mod early_answers;
mod expect;
mod flood;
mod http2;
mod large_bodies;
mod passing;
mod slow_clients;
mod support;
mod tls;
mod upgrades;
mod upstream_faults;
mod upstream_time;
