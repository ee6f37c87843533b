//! The master, as reported by sentinels.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Options;
use crate::connection::Connector;
use crate::error::OpenError;
use crate::url::Endpoint;

/// How long the other sentinels are waited for after the first reply.
const OTHERS: Duration = Duration::from_millis(200);

/// The reply of one sentinel.
struct SentinelReply {
    master: Endpoint,
    /// Rises with every failover.
    epoch: u64,
}

/// Queries all sentinels for the master of that name, and trusts the one that knows of the latest
/// failover: another may be cut off from the rest without knowing it.
pub(super) async fn master(
    options: &Options,
    sentinels: &[Endpoint],
    name: &str,
) -> Result<Endpoint, OpenError> {
    let mut queries = JoinSet::new();
    for sentinel in sentinels {
        let (connector, sentinel, name) =
            (options.sentinel_connector(), sentinel.clone(), name.to_owned());
        queries.spawn(async move { query(&connector, &sentinel, &name).await });
    }
    let mut best: Option<SentinelReply> = None;
    let mut error = None;
    // Each query has a timeout of its own.
    let mut deadline = Instant::now() + options.connect_timeout * 3;
    while let Ok(Some(answer)) = timeout_at(deadline, queries.join_next()).await {
        match answer {
            Ok(Ok(reported)) => {
                deadline = deadline.min(Instant::now() + OTHERS);
                if best.as_ref().is_none_or(|best| best.epoch < reported.epoch) {
                    best = Some(reported);
                }
            }
            Ok(Err(why)) => {
                error = Some(match error {
                    Some(before) => OpenError::or(before, why),
                    None => why,
                });
            }
            Err(_) => {}
        }
    }
    let what = "no sentinel answers".to_owned();
    let none = || OpenError::NoMaster { name: name.to_owned(), what };
    best.map(|best| best.master).ok_or_else(|| error.unwrap_or_else(none))
}

/// Two commands: the address of the master, and the epoch of its failover. The second alone would return
/// the old address while a failover is under way.
async fn query(
    connector: &Connector,
    sentinel: &Endpoint,
    name: &str,
) -> Result<SentinelReply, OpenError> {
    let connection = connector.connect(sentinel).await?;
    let mut commands = redis::pipe();
    commands.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    commands.cmd("SENTINEL").arg("MASTER").arg(name);
    let Ok(answers) = timeout(connector.limit, connection.send_all(&commands)).await else {
        return Err(OpenError::timed_out(sentinel, connector.limit));
    };
    let reported = |error| OpenError::reported(sentinel, &error);
    let mut answers = answers.map_err(reported)?.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
    let address: Option<(String, u16)> =
        redis::from_redis_value(next().map_err(reported)?).unwrap_or_default();
    let master = address.and_then(|(host, port)| sentinel.at(&host, port));
    let master = master.ok_or_else(|| OpenError::NoMaster {
        name: name.to_owned(),
        what: format!("{sentinel} does not know it"),
    })?;
    let facts: HashMap<String, String> =
        next().ok().and_then(|facts| redis::from_redis_value(facts).ok()).unwrap_or_default();
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    Ok(SentinelReply { master, epoch: epoch.unwrap_or_default() })
}
