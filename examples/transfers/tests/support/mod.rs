//! The running example, and a client for it.

#![allow(dead_code, unused_imports, reason = "each test binary uses its part of this")]

mod eventually;
mod http;
mod service;

pub(crate) use eventually::eventually;
pub(crate) use http::{Answer, Call, NoAnswer};
pub(crate) use service::Service;
