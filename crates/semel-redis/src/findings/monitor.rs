//! Inspects promoted servers, too: a replica has settings of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::{Finding, Risk, inspect_server};
use crate::error::OpenError;
use crate::server::Server;
use crate::topology::Topology;
use crate::url::Endpoint;

/// The findings of each server that has records.
#[derive(Debug, Default)]
pub(crate) struct DurabilityMonitor {
    seen: Mutex<BTreeMap<Endpoint, Vec<Finding>>>,
    /// Held during an inspection.
    inspecting: tokio::sync::Mutex<()>,
}

/// The pause before a failed inspection is repeated.
const RETRY: Duration = Duration::from_secs(1);

// === impl DurabilityMonitor ===

impl DurabilityMonitor {
    /// Inspects new servers; and again those that are not durable enough, if durability is required,
    /// because an operator may have changed their settings. Logs new findings.
    pub(crate) async fn inspect(&self, topology: &Topology) -> Result<(), OpenError> {
        let _one = self.inspecting.lock().await;
        let (masters, options) = (topology.masters(), topology.options());
        let is_one_of = |endpoint: &Endpoint| masters.iter().any(|it| it.endpoint() == endpoint);
        self.seen().retain(|endpoint, _| is_one_of(endpoint));
        let mut inspected = Ok(());
        for server in &masters {
            if !self.is_due(server, options.require_durable) {
                continue;
            }
            match inspect_server(options, server).await {
                Ok(findings) => self.note(server, findings),
                Err(error) => inspected = Err(error),
            }
        }
        inspected
    }

    /// Inspects whenever the topology changes, until the topology is dropped.
    pub(crate) fn keep_inspecting(self: &Arc<Self>, topology: &Arc<Topology>) {
        let (here, mut changes) = (self.clone(), topology.changes());
        let topology = Arc::downgrade(topology);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(topology) = topology.upgrade() else {
                    return;
                };
                if let Err(error) = here.inspect(&topology).await {
                    tracing::debug!(%error, "a server's settings cannot be read");
                    drop(topology);
                    sleep(RETRY).await;
                    changes.mark_changed();
                }
            }
        });
    }

    /// Why the servers are not durable enough. A lack of replicas is transient and checked with each
    /// verb, so it does not count.
    pub(crate) fn refusal(&self) -> Result<(), OpenError> {
        let counts = |finding: &&Finding| {
            finding.is_grave() && !matches!(finding.risk, Risk::FewReplicas { .. })
        };
        let seen = self.seen();
        refuse(seen.values().flatten().filter(counts))
    }

    /// Records the findings of the first inspection, which the caller of `open` logs.
    pub(crate) fn begin(&self, topology: &Topology, findings: &[Finding]) {
        let mut seen = self.seen();
        for server in topology.masters() {
            let name = server.endpoint().to_string();
            let its = findings.iter().filter(|finding| finding.server == name).cloned().collect();
            seen.insert(server.endpoint().clone(), its);
        }
    }

    fn is_due(&self, server: &Server, again_if_grave: bool) -> bool {
        match self.seen().get(server.endpoint()) {
            None => true,
            Some(findings) => again_if_grave && findings.iter().any(Finding::is_grave),
        }
    }

    fn note(&self, server: &Server, findings: Vec<Finding>) {
        let mut seen = self.seen();
        let before = seen.remove(server.endpoint()).unwrap_or_default();
        findings.iter().filter(|finding| !before.contains(finding)).for_each(Finding::log);
        seen.insert(server.endpoint().clone(), findings);
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Vec<Finding>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses servers that are not durable enough.
pub(crate) fn refuse<'a>(grave: impl Iterator<Item = &'a Finding>) -> Result<(), OpenError> {
    let grave: Vec<&Finding> = grave.collect();
    match grave.first() {
        None => Ok(()),
        Some(first) => Err(OpenError::NotDurable {
            server: first.server.clone(),
            what: grave.iter().map(ToString::to_string).collect::<Vec<_>>().join(". "),
        }),
    }
}
