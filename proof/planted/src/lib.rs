//! Keeps planted bugs out of releases.
//!
//! The bugs are in [`semel_core::planted`], where each is made at its very place. The binary `semel` depends on this
//! crate only if its feature `planted-bugs` is on: then the build script refuses every release profile.

pub use semel_core::planted::{Bug, VARIABLE};
