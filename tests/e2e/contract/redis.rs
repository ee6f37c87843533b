//! Gateways on Redis: what is said at the start, and what a failover means.

mod faults;
mod start;
