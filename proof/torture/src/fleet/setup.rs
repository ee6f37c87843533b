//! The configuration of a gateway.

use std::path::Path;

use anyhow::Context as _;

use super::LEASE;

/// What differs between gateways.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) upstream: String,
    pub(crate) store: String,
    /// Settled records that it remembers, in bytes; without, the store is always asked.
    pub(crate) cache_bytes: u64,
}

// === impl Setup ===

impl Setup {
    pub(super) fn write(&self, file: &Path) -> anyhow::Result<()> {
        std::fs::write(file, self.text())
            .with_context(|| format!("cannot write {}", file.display()))
    }

    fn text(&self) -> String {
        let Self { upstream, store, cache_bytes } = self;
        let lease = LEASE.as_millis();
        format!(
            r#"upstream = "{upstream}"
store = "{store}"
log = "warn"

[policy]
profile = "ietf"
lease = "{lease}ms"
ttl = "12h"
upstream_timeout = "12s"
request_body_timeout = "3s"

[limits]
cache_bytes = {cache_bytes}
shutdown_timeout = "8s"

[[route]]
match = "POST /hold"
on_abandoned = "hold"
on_unknown = "hold"
in_flight = "conflict"

[[route]]
match = "POST /reexecute"
on_abandoned = "reexecute"
on_unknown = "release"
in_flight = "wait"
wait_timeout = "100ms"
"#
        )
    }
}
