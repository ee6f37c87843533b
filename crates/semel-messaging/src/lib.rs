//! Messages: an inbox, by which a message that is delivered many times takes effect once.
//!
//! Brokers deliver at least once. A consumer that crashes after its work and before its acknowledgement gets the message
//! again, and so does one that is slow. [`Inbox::once`] puts the work of a message under a record that is named by the
//! id of its event, so that a redelivery is recognised; and it says what the consumer owes the broker:
//!
//! ```
//! use std::time::Duration;
//!
//! use semel_engine::Engine;
//! use semel_messaging::{EventId, Failure, Handled, Inbox, Message};
//! use semel_store::MemoryStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let inbox = Inbox::new(Engine::new(MemoryStore::new()), "notifications");
//! let message = Message::new(EventId::parse("evt-17")?, r#"{"order":"o-1"}"#);
//!
//! for delivery in 1..=2 {
//!     let handled = inbox
//!         .once(&message, "email", |execution| async move {
//!             // Send the e-mail here. Hand the fence on where the provider can refuse an older one.
//!             let _ = execution.fence();
//!             Ok::<(), Failure>(())
//!         })
//!         .await;
//!     assert_eq!(handled, if delivery == 1 { Handled::Done } else { Handled::Duplicate });
//!     assert!(handled.is_acknowledged());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The same event on another channel (`"sms"`) is other work, with a record of its own.
//!
//! # What it promises
//!
//! What [`Engine::once`](semel_engine::Engine::once) promises, of which this is a thin wrapper. Under the default policy
//! the work of a message may take effect twice after a crash between the effect and its record. Under
//! [`OnAbandoned::Hold`](semel_core::OnAbandoned) and [`OnUnknown::Hold`](semel_core::OnUnknown) it does not: the message
//! is [`Unknown`](Handled::Unknown) then, until an operator has looked. If the work is in PostgreSQL, the record and its
//! rows can be one commit: see `TransactionalInbox`, with the feature `postgres`.
//!
//! Modules: `message` (an event and its payload), `handled` (what became of it), `failure` (what a handler returns),
//! `rules` (attempts and back-off), `inbox` and `transactional` (the two ways to use them).

mod failure;
mod handled;
mod inbox;
mod message;
mod rules;
#[cfg(feature = "postgres")]
mod transactional;

pub use failure::{BoxError, Failure};
pub use handled::Handled;
pub use inbox::Inbox;
pub use message::{EventId, EventIdError, Message};
pub use rules::InboxRules;
#[cfg(feature = "postgres")]
pub use transactional::{HandlerFuture, TransactionalInbox};
