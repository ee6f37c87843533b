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

/// Where the master is it says in answer to one question, and since which failover in answer to another:
/// to that it would still give the old address while the failover is under way.
async fn ask(dial: &Dial, sentinel: &Endpoint, name: &str) -> Result<Said, OpenError> {
    let connection = dial.connect(sentinel).await?;
    let mut questions = redis::pipe();
    questions.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name);
    questions.cmd("SENTINEL").arg("MASTER").arg(name);
    let Ok(answers) = timeout(dial.limit, connection.ask_all(&questions)).await else {
        return Err(OpenError::silent(sentinel, dial.limit));
    };
    let said = |error| OpenError::said(sentinel, &error);
    let mut answers = answers.map_err(said)?.into_iter();
    let mut next = || answers.next().unwrap_or(Value::Nil).extract_error();
    let address: Option<(String, u16)> =
        redis::from_redis_value(next().map_err(said)?).unwrap_or_default();
    let master = address.and_then(|(host, port)| sentinel.at(&host, port));
    let master = master.ok_or_else(|| OpenError::NoMaster {
        name: name.to_owned(),
        what: format!("{sentinel} has never heard of it"),
    })?;
    let facts: HashMap<String, String> =
        next().ok().and_then(|facts| redis::from_redis_value(facts).ok()).unwrap_or_default();
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok());
    Ok(Said { master, epoch: epoch.unwrap_or_default() })
}
