//! The protocol of Semel, and nothing else.
//!
//! This crate is pure: no I/O, no clock, no randomness, no async. Time, owners and random bytes are
//! arguments, so that every rule can be tested as a table, as a property and as a model.
//!
//! Reading order: [`Key`] and [`Scope`] become a [`RecordId`]; a request becomes a [`Fingerprint`];
//! together with an [`Owner`] they are an [`Attempt`]. [`decide`] returns the answer to an attempt, given
//! the [`Record`] in the store, and [`renew`], [`settle`] and [`release`] are the writes of the holder of a
//! [`Lease`]. Every store must agree with these four functions.
//!
//! ```
//! use std::time::Duration;
//! use semel_core::{Attempt, Claim, Fingerprint, Key, Owner, Policy, RecordId, Scope, Timestamp, decide};
//!
//! let key = Key::parse("order-12345")?;
//! let scope = Scope::new([("who", "customer-7"), ("what", "POST /v1/charges")]);
//! let id = RecordId::new("shop", &scope, &key);
//! let fingerprint = Fingerprint::new([("body", br#"{"amount":100}"#.as_slice())]);
//! let policy = Policy::builder().lease(Duration::from_secs(30)).build()?;
//! let now = Timestamp::from_millis(1_000);
//!
//! // Nothing is recorded yet, so the first attempt may execute ...
//! let first = Attempt::new(id, fingerprint, Owner::from_u128(1));
//! let decision = decide(None, &first, &policy, now);
//! assert!(matches!(decision.claim, Claim::Execute(_)));
//!
//! // ... and a second one, while the first still runs, may not.
//! let record = decision.write.expect("a granted lease is written");
//! let second = Attempt::new(id, fingerprint, Owner::from_u128(2));
//! assert!(matches!(decide(Some(&record), &second, &policy, now).claim, Claim::InFlight { .. }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod attempt;
mod decide;
mod digest;
mod fence;
mod fenced;
mod fingerprint;
pub mod invariants;
mod key;
mod lease;
mod outcome;
mod owner;
#[doc(hidden)]
pub mod planted;
mod policy;
mod record;
mod record_id;
mod scope;
mod timestamp;

pub use attempt::Attempt;
pub use decide::{Claim, Decision, decide};
pub use fence::Fence;
pub use fenced::{Refusal, Release, Transition, release, renew, settle};
pub use fingerprint::Fingerprint;
pub use key::{Key, KeyError, KeyFormat, KeyLimits, TimeWindow};
pub use lease::Lease;
pub use outcome::{Outcome, Reply, ResultId, Settlement};
pub use owner::Owner;
pub use policy::{
    InFlight, OnAbandoned, OnStoreDown, OnUnknown, Policy, PolicyBuilder, PolicyError, PolicyFault,
};
pub use record::{Record, State};
pub use record_id::RecordId;
pub use scope::Scope;
pub use timestamp::Timestamp;
