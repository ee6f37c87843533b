//! One client's connection and its requests: the stream, the time limits, the bodies, and the counts of its work.
//!
//! This module knows neither the upstream nor the threads that serve.

mod activity;
mod body;
pub(crate) mod goaway;
mod leftovers;
mod load;
mod permit;
mod settings;
mod stream;
pub(crate) mod streams;
pub(crate) mod watch;

pub(crate) use activity::{Activity, ActivityKind, ClientTimeouts, Overdue};
pub(crate) use body::{ClientBody, ClientError, InService, Served};
pub(crate) use leftovers::Leftovers;
pub(crate) use load::{Full, InWork, Load, LoadLimits, TooManyResets};
pub(crate) use permit::ConnectionPermit;
pub(crate) use settings::ConnectionSettings;
pub(crate) use stream::ClientStream;
