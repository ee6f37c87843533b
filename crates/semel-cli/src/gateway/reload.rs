//! Reloading the configuration while the gateway serves.

use semel_gateway::Gateway;
use semel_gateway::config::Config;

use crate::configuration::{Sources, Unusable};

/// Keeps the configuration of the start and the current one.
pub(crate) struct Reloader {
    sources: Sources,
    started: Config,
    current: Config,
}

// === impl Reloader ===

impl Reloader {
    pub(crate) fn new(sources: Sources, config: Config) -> Self {
        Self { sources, started: config.clone(), current: config }
    }

    /// Applies the file's current content, or keeps the old configuration if it is invalid.
    pub(crate) async fn reload(&mut self, gateway: &mut Gateway) {
        let config = match self.sources.load() {
            Ok(config) => config,
            Err(unusable) => return refuse(&unusable),
        };
        // The gateway compares with the last reload; settings that need a restart are logged at each one.
        if let Err(error) = gateway.reload(config.clone()).await {
            tracing::error!(%error, "not reloaded: the old configuration stays");
            return;
        }
        let changes = self.current.changes(&config);
        for change in &changes {
            tracing::info!(change, "reload");
        }
        let waiting = self.started.needs_restart(&config);
        if !waiting.is_empty() {
            let settings = waiting.join(", ");
            tracing::warn!(settings, "these settings take effect at the next start");
        }
        tracing::info!(changes = changes.len(), "reloaded");
        self.current = config;
    }
}

fn refuse(unusable: &Unusable) {
    match unusable {
        Unusable::Faults(faults) => {
            for fault in faults.iter() {
                let (at, what, cure) = (fault.at(), fault.what(), fault.cure());
                tracing::error!(at, what, cure, "fault in the configuration");
            }
        }
        Unusable::Unreadable(what) => tracing::error!(what, "the configuration cannot be read"),
    }
    tracing::error!("not reloaded: the old configuration stays");
}
