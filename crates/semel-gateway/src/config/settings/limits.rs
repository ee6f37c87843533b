use std::time::Duration;

use super::kind::{Typed, integer, size, time};
use super::{Row, Section, Setting};
use crate::config::values::Values;

/// Waiting for the other side.
const TIMEOUT: Typed<Duration> = time("10ms", "1h");
/// Keeping an unused connection.
const IDLE: Typed<Duration> = time("10ms", "24h");

/// The settings, and a field for each.
macro_rules! limits {
    ($(
        $(#[doc = $doc:literal])+
        $setting:ident: $type:ty = $name:ident($kind:expr)$(.$method:ident($($arg:expr),*))*;
    )+) => {
        settings! { SETTINGS in Limits;
            $($(#[doc = $doc])+ $setting: $type = $name($kind)$(.$method($($arg),*))*;)+
        }

        /// How much of anything there may be, and how long it may take.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[expect(clippy::doc_markdown, reason = "the reference page has the same texts")]
        pub struct Limits {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Limits {
            pub(in crate::config) fn of(values: &Values) -> Self {
                Self { $($name: values.get(&$setting)),+ }
            }
        }
    };
}

limits! {
    /// Client connections at once.
    MAX_CONNECTIONS: usize = max_connections(integer(1, 1_000_000)).or("10000").at_start();
    /// Size of a request's head, all headers together.
    MAX_HEADER_BYTES: usize = max_header_bytes(size("8KiB", "16MiB")).or(r#""64KiB""#);
    /// Headers of a request.
    MAX_HEADERS: usize = max_headers(integer(10, 10_000)).or("100");
    /// Time for a request's head to arrive.
    HEADER_TIMEOUT: Duration = header_timeout(TIMEOUT).or(r#""10s""#);
    /// How long a client connection is kept without a request, or a tunnel without a byte.
    IDLE_TIMEOUT: Duration = idle_timeout(IDLE).or(r#""75s""#);
    /// Longest pause between two pieces of a body, in either direction.
    BODY_IDLE_TIMEOUT: Duration = body_idle_timeout(TIMEOUT).or(r#""15s""#);
    // As many as may be streams at once: a client that resets none is never refused.
    /// Requests of one HTTP/2 connection in work at once, those whose stream was reset included; one more is refused
    /// with 503.
    MAX_EXECUTIONS_PER_CONNECTION: usize = max_executions_per_connection(integer(1, 100_000)).or("256");
    /// Requests in work that the client of an HTTP/2 connection may reset, of which each answer makes up for one;
    /// beyond that the connection is closed.
    MAX_RESETS_PER_CONNECTION: usize = max_resets_per_connection(integer(1, 1_000_000)).or("100");
    /// Connections to the upstream at once, idle ones and tunnels included. A request waits for one as long as
    /// connect_timeout says, and is then refused with 503.
    MAX_UPSTREAM_CONNECTIONS: usize = max_upstream_connections(integer(1, 1_000_000)).or("8000").at_start();
    /// Time for a connection to the upstream, and for a place for it.
    CONNECT_TIMEOUT: Duration = connect_timeout(TIMEOUT).or(r#""5s""#);
    // Shorter than most servers keep theirs: a request that meets a connection while the upstream
    // closes it is lost, and its outcome unknown.
    /// How long an upstream connection is kept without a request.
    POOL_IDLE_TIMEOUT: Duration = pool_idle_timeout(IDLE).or(r#""4s""#);
    /// Upstream connections kept without a request.
    POOL_MAX_IDLE: usize = pool_max_idle(integer(0, 100_000)).or("512");
    /// Time for requests that run when the gateway stops.
    SHUTDOWN_TIMEOUT: Duration = shutdown_timeout(time("0s", "24h")).or(r#""30s""#);
    /// Protected requests at once; one more is refused with 503.
    MAX_EXECUTIONS: usize = max_executions(integer(1, 10_000_000)).or("100000").at_start();
    /// Duplicates that wait for an outcome at once; one more is answered without waiting.
    MAX_WAITERS: usize = max_waiters(integer(0, 10_000_000)).or("10000").at_start();
    /// Memory for the bodies of protected requests and their replies, all together.
    MAX_BUFFERED: u64 = max_buffered(size("1MiB", "1024GiB")).or(r#""256MiB""#);
    /// Memory for settled records, so that replays need not ask the store; 0 turns it off.
    CACHE_BYTES: u64 = cache_bytes(size("0B", "1024GiB")).or(r#""64MiB""#).at_start();
}
