//! Log lines that an outage or an attack cannot multiply.
//!
//! What a client, a store or an upstream can cause once per request is one *kind* of line, and has a [`Throttle`]:
//! the first line is written at once, and after that at most one per second, with the number of those that were left
//! out before it. When the storm ends, one more line has the number that is left. So the number of lines does not
//! depend on the number of requests, and lines and numbers add up to what happened.
//!
//! ```
//! use semel_log::Throttle;
//! use tracing::Level;
//!
//! let refused = Throttle::of("refused", Level::WARN);
//! for _ in 0..1_000 {
//!     refused.line(|left_out| tracing::warn!(left_out, "refused"));
//! }
//! ```
//!
//! Lines that are written once per execution that was begun, at its start and its end, have none: they are what an
//! operator finds a record by, and the limits for executions bound them.

mod throttle;

pub use throttle::{LEFT_OUT, Throttle};
