//! Behaviour of the engine, one file for each topic, over a scripted store.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod adoption;
mod detached;
mod fencing;
mod limits;
mod lives;
mod logs;
mod outcomes;
mod quotas;
mod recovery;
mod shutdown;
mod store_loss;
mod support;
mod waiting;
