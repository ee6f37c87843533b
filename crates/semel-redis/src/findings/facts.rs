//! How a server is set up.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::time::timeout;

use crate::error::OpenError;
use crate::server::Server;

/// What matters of a server's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that are independent of each other")]
pub(crate) struct Facts {
    /// In bytes; zero if there is no limit.
    pub(crate) maxmemory: u64,
    pub(crate) policy: String,
    pub(crate) has_log: bool,
    pub(crate) has_snapshots: bool,
    /// `None` if the server does not tell.
    pub(crate) fsync: Option<String>,
    /// Does it leave the disk alone while it rewrites its log?
    pub(crate) rests_while_rewriting: bool,
    pub(crate) loads_truncated: bool,
    /// One of which may take its place.
    pub(crate) replicas: u32,
    pub(crate) is_of_a_cluster: bool,
    /// Why not all of this is known.
    pub(crate) untold: Option<String>,
}

/// What is asked for by name.
const SETTINGS: [&str; 4] =
    ["appendfsync", "no-appendfsync-on-rewrite", "aof-load-truncated", "save"];
/// The oldest version with `#!lua`, sharded channels, and all else that the scripts need.
const OLDEST: u32 = 7;

// === impl Facts ===

impl Facts {
    /// Asks the server.
    pub(crate) async fn of(server: &Arc<Server>, limit: Duration) -> Result<Self, OpenError> {
        let connection = server.connection().await?;
        let mut info = redis::cmd("INFO");
        info.arg(&["server", "memory", "persistence", "replication", "cluster"]);
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg(&SETTINGS);
        let asked = async {
            let info = connection.ask(&info).await.and_then(Value::extract_error)?;
            let config = connection.ask(&config).await.and_then(Value::extract_error);
            Ok::<_, RedisError>((info, config))
        };
        let Ok(answered) = timeout(limit, asked).await else {
            return Err(OpenError::silent(server.endpoint(), limit));
        };
        let (info, config) =
            answered.map_err(|error| OpenError::said(server.endpoint(), &error))?;
        let info = lines(&redis::from_redis_value::<String>(info).unwrap_or_default());
        check_version(server, &info)?;
        Ok(Self::read(&info, config.and_then(|config| Ok(redis::from_redis_value(config)?))))
    }

    fn read(
        info: &HashMap<String, String>,
        config: Result<HashMap<String, String>, RedisError>,
    ) -> Self {
        let told = |name: &str| info.get(name).map_or("", String::as_str);
        let (config, untold) = match config {
            Ok(config) if config.contains_key("appendfsync") => (config, None),
            Ok(config) => (config, Some("it hides appendfsync".to_owned())),
            Err(error) => (HashMap::new(), Some(error.to_string())),
        };
        let is_set = |name: &str| config.get(name).is_some_and(|value| value == "yes");
        Self {
            maxmemory: told("maxmemory").parse().unwrap_or_default(),
            policy: told("maxmemory_policy").to_owned(),
            has_log: told("aof_enabled") == "1",
            has_snapshots: config.get("save").is_none_or(|save| !save.is_empty()),
            fsync: config.get("appendfsync").cloned(),
            rests_while_rewriting: is_set("no-appendfsync-on-rewrite"),
            loads_truncated: is_set("aof-load-truncated"),
            replicas: told("connected_slaves").parse().unwrap_or_default(),
            is_of_a_cluster: told("cluster_enabled") == "1",
            untold,
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
    fn facts_are_read_from_what_the_server_says() {
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
            rests_while_rewriting: false,
            loads_truncated: true,
            replicas: 2,
            is_of_a_cluster: false,
            untold: None,
        };
        assert_eq!(facts, expected);
    }
}
