//! Risks of losing records, derived from the servers' settings.
//!
//! Redis keeps its data in memory. Whether records outlive a crash, a full memory or a failover depends
//! on its settings, and its defaults favour speed. So the settings are read and the risks reported.

mod facts;
mod monitor;

use std::fmt;
use std::sync::Arc;

use crate::Options;
use crate::error::OpenError;
use crate::server::Server;
use crate::topology::Topology;

pub(crate) use facts::Facts;
pub(crate) use monitor::{DurabilityMonitor, refuse};

/// A way in which a server may lose records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The server.
    pub server: String,
    /// The risk.
    pub risk: Risk,
    /// The cure.
    pub cure: String,
}

/// How records may be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Risk {
    /// When its memory is full, the server deletes records to make room.
    Evicts {
        /// `maxmemory-policy`.
        policy: String,
    },
    /// Nothing is written to disk, or only periodic snapshots.
    NotPersisted {
        /// Whether there are snapshots.
        snapshots: bool,
    },
    /// Acknowledged writes are synced to the disk with a delay.
    DelaysFsync {
        /// `appendfsync`.
        fsync: String,
    },
    /// While it rewrites its append-only file, the server syncs nothing.
    SkipsFsyncWhileRewriting,
    /// There are fewer replicas than `wait_replicas`: the outcome of every write is unknown.
    FewReplicas {
        /// The number of replicas.
        have: u32,
        /// The number that is waited for.
        wanted: u32,
    },
    /// After a crash the server drops an unreadable end of its append-only file, and reports that only in
    /// its log.
    LoadsTruncatedLog,
    /// A replica that is promoted may not have the latest records.
    FailsOver {
        /// The number of replicas that are waited for.
        wait_replicas: u32,
    },
    /// The server does not report its settings.
    Unreported {
        /// The reason.
        what: String,
    },
}

// === impl Finding ===

impl Finding {
    /// Whether `require_durable` refuses to serve with it.
    pub const fn is_grave(&self) -> bool {
        match self.risk {
            Risk::Evicts { .. }
            | Risk::NotPersisted { .. }
            | Risk::DelaysFsync { .. }
            | Risk::SkipsFsyncWhileRewriting
            | Risk::FewReplicas { .. }
            | Risk::FailsOver { wait_replicas: 0 }
            | Risk::Unreported { .. } => true,
            // An append-only file that was written in full keeps its end if the process dies, and the
            // loss of writes that were not acknowledged does not count.
            Risk::LoadsTruncatedLog | Risk::FailsOver { .. } => false,
        }
    }

    /// Writes it to the log.
    pub(crate) fn log(&self) {
        tracing::warn!(code = self.code(), "{self}");
    }

    /// A stable code.
    pub const fn code(&self) -> &'static str {
        match self.risk {
            Risk::Evicts { .. } => "redis_evicts",
            Risk::NotPersisted { .. } => "redis_forgets_in_a_crash",
            Risk::DelaysFsync { .. } => "redis_loses_the_latest",
            Risk::SkipsFsyncWhileRewriting => "redis_rests_while_rewriting",
            Risk::FewReplicas { .. } => "redis_few_replicas",
            Risk::LoadsTruncatedLog => "redis_starts_without_the_end",
            Risk::FailsOver { .. } => "redis_fails_over",
            Risk::Unreported { .. } => "redis_untold",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, risk, cure } = self;
        write!(f, "{server}: {risk}; {cure}")
    }
}

impl fmt::Display for Risk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Evicts { policy } => write!(
                f,
                "when its memory is full it deletes records (maxmemory-policy {policy}), and their retries \
                 execute again"
            ),
            Self::NotPersisted { snapshots: false } => {
                f.write_str("it keeps nothing on disk: a restart forgets every record")
            }
            Self::NotPersisted { snapshots: true } => {
                f.write_str("a crash forgets all records since its last snapshot, minutes perhaps")
            }
            Self::DelaysFsync { fsync } => write!(
                f,
                "a power cut can lose the records of the last two seconds or more (appendfsync {fsync})"
            ),
            Self::SkipsFsyncWhileRewriting => f.write_str(
                "a power cut while it rewrites its log can lose what came since the rewrite began \
                 (no-appendfsync-on-rewrite yes)",
            ),
            Self::FewReplicas { have, wanted } => {
                write!(f, "it has {have} replicas, and {wanted} are to be waited for")
            }
            Self::LoadsTruncatedLog => f.write_str(
                "if the end of its log is damaged it starts without it (aof-load-truncated yes)",
            ),
            Self::FailsOver { wait_replicas: 0 } => f.write_str(
                "a failover loses the records that the promoted replica does not have yet",
            ),
            Self::FailsOver { wait_replicas } => write!(
                f,
                "a failover to a replica that is not among the {wait_replicas} waited for can lose records"
            ),
            Self::Unreported { what } => write!(f, "its settings cannot be read: {what}"),
        }
    }
}

/// Inspects every server that has records.
pub(crate) async fn inspect(topology: &Topology) -> Result<Vec<Finding>, OpenError> {
    let mut findings = Vec::new();
    for server in topology.masters() {
        findings.extend(inspect_server(topology.options(), &server).await?);
    }
    Ok(findings)
}

async fn inspect_server(
    options: &Options,
    server: &Arc<Server>,
) -> Result<Vec<Finding>, OpenError> {
    let facts = Facts::of(server, options.connect_timeout).await?;
    let name = server.endpoint().to_string();
    // It would serve us as long as it has all slots.
    if facts.is_of_a_cluster && !options.is_cluster() {
        return Err(OpenError::IsCluster { server: name });
    }
    Ok(evaluate(&name, &facts, options))
}

fn evaluate(server: &str, facts: &Facts, options: &Options) -> Vec<Finding> {
    let wait_replicas = options.wait_replicas;
    let mut findings = Vec::new();
    let mut found = |risk, cure: &str| {
        findings.push(Finding { server: server.to_owned(), risk, cure: cure.to_owned() });
    };
    if facts.maxmemory > 0 && facts.policy != "noeviction" {
        let risk = Risk::Evicts { policy: facts.policy.clone() };
        found(risk, "CONFIG SET maxmemory-policy noeviction, or a server of its own for Semel");
    }
    if let Some(what) = &facts.unreported {
        found(Risk::Unreported { what: what.clone() }, "allow our user +config|get");
    }
    if !facts.has_log {
        let risk = Risk::NotPersisted { snapshots: facts.has_snapshots };
        found(risk, "CONFIG SET appendonly yes");
    } else if let Some(fsync) = facts.fsync.as_ref().filter(|fsync| *fsync != "always") {
        let risk = Risk::DelaysFsync { fsync: fsync.clone() };
        found(risk, "CONFIG SET appendfsync always, if that is too much");
    }
    if facts.has_log && facts.loads_truncated {
        found(
            Risk::LoadsTruncatedLog,
            "CONFIG SET aof-load-truncated no, so that it stops instead",
        );
    }
    if facts.has_log && facts.skips_fsync_while_rewriting {
        found(Risk::SkipsFsyncWhileRewriting, "CONFIG SET no-appendfsync-on-rewrite no");
    }
    if facts.replicas < wait_replicas {
        let risk = Risk::FewReplicas { have: facts.replicas, wanted: wait_replicas };
        found(risk, "lower wait_replicas, or add replicas");
    }
    if facts.replicas > 0 || options.has_sentinels() {
        let risk = Risk::FailsOver { wait_replicas };
        let cure = if wait_replicas == 0 {
            "set wait_replicas = 1 to make that rare; only PostgreSQL rules it out"
        } else {
            "only PostgreSQL rules that out"
        };
        found(risk, cure);
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn best() -> Facts {
        Facts {
            maxmemory: 1 << 30,
            policy: "noeviction".to_owned(),
            has_log: true,
            has_snapshots: false,
            fsync: Some("always".to_owned()),
            skips_fsync_while_rewriting: false,
            loads_truncated: false,
            replicas: 0,
            is_of_a_cluster: false,
            unreported: None,
        }
    }

    fn codes(facts: &Facts, wait_replicas: u32) -> Vec<(&'static str, bool)> {
        let options = Options::from_url("redis://h:1").unwrap().wait_replicas(wait_replicas);
        let findings = evaluate("h:1", facts, &options);
        findings.iter().map(|found| (found.code(), found.is_grave())).collect()
    }

    #[test]
    fn a_server_that_keeps_everything() {
        assert_eq!(codes(&best(), 0), []);
        // A limit that does not exist cannot be reached.
        let policy = "allkeys-lru".to_owned();
        assert_eq!(codes(&Facts { maxmemory: 0, policy, ..best() }, 0), []);
    }

    #[test]
    fn each_risk_is_found() {
        let policy = "volatile-ttl".to_owned();
        let evicting = Facts { policy, ..best() };
        assert_eq!(codes(&evicting, 0), [("redis_evicts", true)]);
        let forgetting = Facts { has_log: false, loads_truncated: true, ..best() };
        assert_eq!(codes(&forgetting, 0), [("redis_forgets_in_a_crash", true)]);
        let late = Facts { fsync: Some("everysec".to_owned()), ..best() };
        assert_eq!(codes(&late, 0), [("redis_loses_the_latest", true)]);
        let truncating = Facts { loads_truncated: true, ..best() };
        assert_eq!(codes(&truncating, 0), [("redis_starts_without_the_end", false)]);
        let replicated = Facts { replicas: 1, ..best() };
        assert_eq!(codes(&replicated, 0), [("redis_fails_over", true)]);
        assert_eq!(codes(&replicated, 1), [("redis_fails_over", false)]);
        let few = [("redis_few_replicas", true), ("redis_fails_over", false)];
        assert_eq!(codes(&replicated, 2), few);
        let resting = Facts { skips_fsync_while_rewriting: true, ..best() };
        assert_eq!(codes(&resting, 0), [("redis_rests_while_rewriting", true)]);
        let sentinels = Options::from_url("redis+sentinel://a/main").unwrap();
        assert_eq!(evaluate("h:1", &best(), &sentinels)[0].code(), "redis_fails_over");
        let hidden = Facts { unreported: Some("no".to_owned()), fsync: None, ..best() };
        assert_eq!(codes(&hidden, 0), [("redis_untold", true)]);
    }

    #[test]
    fn each_finding_has_a_meaning_and_a_cure() {
        let late = Facts { fsync: Some("everysec".to_owned()), ..best() };
        let options = Options::from_url("redis://h:1").unwrap();
        let reported = evaluate("h:1", &late, &options)[0].to_string();
        assert!(reported.starts_with("h:1: ") && reported.contains("two seconds"), "{reported}");
        assert!(reported.contains("appendfsync always"), "{reported}");
    }
}
