//! The running example, and a client for it.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part of this")]

mod http;
mod patience;
mod service;

pub(crate) use http::{Answer, Call, NoAnswer};
pub(crate) use patience::eventually;
pub(crate) use service::Service;
