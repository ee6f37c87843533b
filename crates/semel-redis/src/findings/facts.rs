//! The settings of a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::time::timeout;

use crate::error::OpenError;
use crate::server::Server;

/// The settings that matter for records.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Facts {
    /// In bytes; zero if there is no limit.
    pub(crate) maxmemory: u64,
    pub(crate) policy: String,
    pub(crate) has_log: bool,
    pub(crate) has_snapshots: bool,
    /// `None` if the server does not report it.
    pub(crate) fsync: Option<String>,
    /// Whether it skips syncs while it rewrites its append-only file.
    pub(crate) skips_fsync_while_rewriting: bool,
    pub(crate) loads_truncated: bool,
    /// Any of them may be promoted.
    pub(crate) replicas: u32,
    pub(crate) is_of_a_cluster: bool,
    /// Why some settings are unknown.
    pub(crate) unreported: Option<String>,
}

/// The settings that are read by name.
const SETTINGS: [&str; 4] =
    ["appendfsync", "no-appendfsync-on-rewrite", "aof-load-truncated", "save"];
/// The oldest version with `#!lua`, sharded channels, and everything else that the scripts need.
const OLDEST: u32 = 7;

// === impl Facts ===

impl Facts {
    /// Reads them from the server.
    pub(crate) async fn of(server: &Arc<Server>, limit: Duration) -> Result<Self, OpenError> {
        let connection = server.connection().await?;
        let mut info = redis::cmd("INFO");
        info.arg(&["server", "memory", "persistence", "replication", "cluster"]);
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg(&SETTINGS);
        let requests = async {
            let info = connection.send(&info).await.and_then(Value::extract_error)?;
            let config = connection.send(&config).await.and_then(Value::extract_error);
            Ok::<_, RedisError>((info, config))
        };
        let Ok(replies) = timeout(limit, requests).await else {
            return Err(OpenError::timed_out(server.endpoint(), limit));
        };
        let (info, config) =
            replies.map_err(|error| OpenError::reported(server.endpoint(), &error))?;
        let info = lines(&redis::from_redis_value::<String>(info).unwrap_or_default());
        check_version(server, &info)?;
        Ok(Self::read(&info, config.and_then(|config| Ok(redis::from_redis_value(config)?))))
    }

    fn read(
        info: &HashMap<String, String>,
        config: Result<HashMap<String, String>, RedisError>,
    ) -> Self {
        let value_of = |name: &str| info.get(name).map_or("", String::as_str);
        let (config, unreported) = match config {
            Ok(config) if config.contains_key("appendfsync") => (config, None),
            Ok(config) => (config, Some("it hides appendfsync".to_owned())),
            Err(error) => (HashMap::new(), Some(error.to_string())),
        };
        let is_set = |name: &str| config.get(name).is_some_and(|value| value == "yes");
        Self {
            maxmemory: value_of("maxmemory").parse().unwrap_or_default(),
            policy: value_of("maxmemory_policy").to_owned(),
            has_log: value_of("aof_enabled") == "1",
            has_snapshots: config.get("save").is_none_or(|save| !save.is_empty()),
            fsync: config.get("appendfsync").cloned(),
            skips_fsync_while_rewriting: is_set("no-appendfsync-on-rewrite"),
            loads_truncated: is_set("aof-load-truncated"),
            replicas: value_of("connected_slaves").parse().unwrap_or_default(),
            is_of_a_cluster: value_of("cluster_enabled") == "1",
            unreported,
        }
    }
}

fn check_version(server: &Server, info: &HashMap<String, String>) -> Result<(), OpenError> {
    let version = info.get("redis_version").map_or("", String::as_str);
    let first = version.split('.').next().and_then(|first| first.parse::<u32>().ok());
    match first {
        Some(first) if first < OLDEST => {
            let found = format!("version {version}");
            Err(OpenError::TooOld { server: server.endpoint().to_string(), found })
        }
        _ => Ok(()),
    }
}

/// `name:value` lines.
fn lines(text: &str) -> HashMap<String, String> {
    let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_from_info_and_config() {
        let info = lines(
            "# Server\r\nredis_version:7.0.15\r\nmaxmemory:1024\r\nmaxmemory_policy:allkeys-lru\r\n\
             aof_enabled:1\r\nconnected_slaves:2\r\n",
        );
        let config = [("appendfsync", "everysec"), ("aof-load-truncated", "yes"), ("save", "")];
        let config = config.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let facts = Facts::read(&info, Ok(config));
        let expected = Facts {
            maxmemory: 1024,
            policy: "allkeys-lru".to_owned(),
            has_log: true,
            has_snapshots: false,
            fsync: Some("everysec".to_owned()),
            skips_fsync_while_rewriting: false,
            loads_truncated: true,
            replicas: 2,
            is_of_a_cluster: false,
            unreported: None,
        };
        assert_eq!(facts, expected);
    }
}
