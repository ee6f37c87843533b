//! The rules of the tower layers, one file each, in process and over a memory store.
#![expect(clippy::unwrap_used, reason = "a panic is how tests fail")]

mod abandoned;
mod detached;
mod early_answers;
mod executions;
mod frameworks;
mod idempotent;
mod in_flight;
mod keys;
mod logs;
mod meaning;
mod memory;
mod methods;
mod mismatches;
mod observers;
mod outcomes;
mod quotas;
mod refusals;
mod replays;
mod reply_bodies;
mod request_bodies;
mod scopes;
mod shadow;
mod store_loss;
mod storms;
mod support;
mod tokens;
