//! The engine's rules, one file each, over a store that follows a script.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod adoption;
mod detached;
mod fencing;
mod limits;
mod lives;
mod logs;
mod outcomes;
mod recovery;
mod shutdown;
mod store_loss;
mod support;
mod waiting;
