//! Who takes over later is looked at, too: a replica has settings of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::sleep;

use super::{Finding, Risk, look_at};
use crate::error::OpenError;
use crate::server::Server;
use crate::topology::Topology;
use crate::url::Endpoint;

/// What was found, of each server that has records.
#[derive(Debug, Default)]
pub(crate) struct Lookout {
    seen: Mutex<BTreeMap<Endpoint, Vec<Finding>>>,
    /// Held by the one who looks.
    looking: tokio::sync::Mutex<()>,
}

/// How long to wait before a server is tried again that could not be looked at.
const RETRY: Duration = Duration::from_secs(1);

// === impl Lookout ===

impl Lookout {
    /// Looks at the servers that were not looked at; and again at those that are not durable enough, if
    /// they have to be, for they may have been mended. What is new is said in the log.
    pub(crate) async fn look(&self, topology: &Topology) -> Result<(), OpenError> {
        let _one = self.looking.lock().await;
        let (masters, options) = (topology.masters(), topology.options());
        let is_one_of = |endpoint: &Endpoint| masters.iter().any(|it| it.endpoint() == endpoint);
        self.seen().retain(|endpoint, _| is_one_of(endpoint));
        let mut looked = Ok(());
        for server in &masters {
            if !self.is_due(server, options.require_durable) {
                continue;
            }
            match look_at(options, server).await {
                Ok(findings) => self.note(server, findings),
                Err(error) => looked = Err(error),
            }
        }
        looked
    }

    /// Looks whenever another server may have records, for as long as there is a topology.
    pub(crate) fn keep_looking(self: &Arc<Self>, topology: &Arc<Topology>) {
        let (here, mut changes) = (self.clone(), topology.changes());
        let topology = Arc::downgrade(topology);
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let Some(topology) = topology.upgrade() else {
                    return;
                };
                if let Err(error) = here.look(&topology).await {
                    tracing::debug!(%error, "a server does not say how it is set up");
                    drop(topology);
                    sleep(RETRY).await;
                    changes.mark_changed();
                }
            }
        });
    }

    /// Why the servers are not durable enough. That there are too few replicas does not count: it is asked
    /// each time, and passes.
    pub(crate) fn refusal(&self) -> Result<(), OpenError> {
        let counts = |finding: &&Finding| {
            finding.is_grave() && !matches!(finding.risk, Risk::FewReplicas { .. })
        };
        let seen = self.seen();
        refuse(seen.values().flatten().filter(counts))
    }

    /// What was found when the store was opened: the first look, which is said by whoever opens it.
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
        findings.iter().filter(|finding| !before.contains(finding)).for_each(Finding::say);
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
