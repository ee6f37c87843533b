//! The master, by what sentinels say.

use redis::Value;

use crate::Options;
use crate::error::OpenError;
use crate::url::Endpoint;

/// Asks one sentinel after the other where the master of that name is.
pub(super) async fn master(
    options: &Options,
    sentinels: &[Endpoint],
    name: &str,
) -> Result<Endpoint, OpenError> {
    let mut last = None;
    for sentinel in sentinels {
        match ask(options, sentinel, name).await {
            Ok(endpoint) => return Ok(endpoint),
            Err(error) => last = Some(error),
        }
    }
    let what = "there are none".to_owned();
    Err(last.unwrap_or(OpenError::NoMaster { name: name.to_owned(), what }))
}

async fn ask(options: &Options, sentinel: &Endpoint, name: &str) -> Result<Endpoint, OpenError> {
    let dial = options.dial_sentinel();
    let connection = dial.connect(sentinel).await?;
    let mut question = redis::cmd("SENTINEL");
    question.arg("get-master-addr-by-name").arg(name);
    let Ok(answer) = tokio::time::timeout(dial.limit, connection.ask(&question)).await else {
        return Err(OpenError::silent(sentinel, dial.limit));
    };
    let answer = answer.and_then(Value::extract_error);
    let answer = answer.map_err(|error| OpenError::said(sentinel, &error))?;
    let found: Option<(String, u16)> = redis::from_redis_value(answer).unwrap_or_default();
    let endpoint = found.and_then(|(host, port)| sentinel.at(&host, port));
    endpoint.ok_or_else(|| OpenError::NoMaster {
        name: name.to_owned(),
        what: format!("{sentinel} has never heard of it"),
    })
}
