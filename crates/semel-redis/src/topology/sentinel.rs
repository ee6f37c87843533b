//! The master, by what sentinels say.

use std::collections::HashMap;
use std::time::Duration;

use redis::Value;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};

use crate::Options;
use crate::connection::Dial;
use crate::error::OpenError;
use crate::url::Endpoint;

/// How long the others are waited for when one has answered.
const OTHERS: Duration = Duration::from_millis(200);

/// What a sentinel says.
struct Said {
    master: Endpoint,
    /// Rises with every failover.
    epoch: u64,
}

/// Asks all sentinels where the master of that name is, and believes the one that knows of the latest
/// failover: another may be cut off from the rest, and not know it.
pub(super) async fn master(
    options: &Options,
    sentinels: &[Endpoint],
    name: &str,
) -> Result<Endpoint, OpenError> {
    let mut asked = JoinSet::new();
    for sentinel in sentinels {
        let (dial, sentinel, name) = (options.dial_sentinel(), sentinel.clone(), name.to_owned());
        asked.spawn(async move { ask(&dial, &sentinel, &name).await });
    }
    let mut best: Option<Said> = None;
    let mut error = None;
    // Each has a limit of its own.
    let mut deadline = Instant::now() + options.connect_timeout * 3;
    while let Ok(Some(answer)) = timeout_at(deadline, asked.join_next()).await {
        match answer {
            Ok(Ok(said)) => {
                deadline = deadline.min(Instant::now() + OTHERS);
                if best.as_ref().is_none_or(|best| best.epoch < said.epoch) {
                    best = Some(said);
                }
            }
            Ok(Err(why)) => error = Some(why),
            Err(_) => {}
        }
    }
    let what = "nobody answers".to_owned();
    let nobody = || OpenError::NoMaster { name: name.to_owned(), what };
    best.map(|best| best.master).ok_or_else(|| error.unwrap_or_else(nobody))
}

async fn ask(dial: &Dial, sentinel: &Endpoint, name: &str) -> Result<Said, OpenError> {
    let connection = dial.connect(sentinel).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("MASTER").arg(name);
    let Ok(answer) = timeout(dial.limit, connection.ask(&question)).await else {
        return Err(OpenError::silent(sentinel, dial.limit));
    };
    let unknown = |what: String| OpenError::NoMaster { name: name.to_owned(), what };
    let answer = answer.and_then(Value::extract_error).map_err(|error| {
        if error.to_string().contains("No such master") {
            unknown(format!("{sentinel} has never heard of it"))
        } else {
            OpenError::said(sentinel, &error)
        }
    })?;
    let facts: HashMap<String, String> = redis::from_redis_value(answer).unwrap_or_default();
    let told = |fact: &str| facts.get(fact).map(String::as_str);
    let port = told("port").and_then(|port| port.parse().ok());
    let master = told("ip").zip(port).and_then(|(host, port)| sentinel.at(host, port));
    let epoch = told("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or_default();
    let master = master.ok_or_else(|| unknown(format!("{sentinel} does not say where it is")))?;
    Ok(Said { master, epoch })
}
