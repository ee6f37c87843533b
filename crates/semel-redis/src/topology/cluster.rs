//! Who has which slots of a cluster.

use std::sync::Arc;

use redis::Value;

use super::servers::Servers;
use crate::Options;
use crate::error::OpenError;
use crate::server::Server;
use crate::slot::{SLOTS, Slot};
use crate::url::Endpoint;

/// A server for each slot.
#[derive(Clone, Debug)]
pub(super) struct Map {
    masters: Vec<Arc<Server>>,
    /// By slot, which of the masters; `NOBODY` if none.
    owners: Box<[u16]>,
}

const NOBODY: u16 = u16::MAX;

/// Slots from one to another, and who has them.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: usize,
    last: usize,
    master: Endpoint,
}

// === impl Map ===

impl Map {
    fn new(servers: &Servers, ranges: Vec<Range>) -> Self {
        let mut map = Self { masters: Vec::new(), owners: vec![NOBODY; SLOTS].into() };
        for range in ranges {
            let number = map.number_of(&servers.get(&range.master));
            map.owners[range.first..=range.last].fill(number);
        }
        map
    }

    /// One that has all slots.
    #[cfg(test)]
    pub(super) fn of_one(server: &Arc<Server>) -> Self {
        Self { masters: vec![server.clone()], owners: vec![0; SLOTS].into() }
    }

    /// Those that have a slot.
    pub(super) fn masters(&self) -> Vec<Arc<Server>> {
        let mut has_one = vec![false; self.masters.len()];
        for owner in &self.owners {
            if let Some(has_one) = has_one.get_mut(usize::from(*owner)) {
                *has_one = true;
            }
        }
        let masters = self.masters.iter().zip(has_one);
        masters.filter(|(_, has_one)| *has_one).map(|(master, _)| master.clone()).collect()
    }

    fn is_whole(&self) -> bool {
        !self.owners.contains(&NOBODY)
    }

    pub(super) fn server_of(&self, slot: Slot) -> Option<Arc<Server>> {
        self.masters.get(usize::from(self.owners[slot.index()])).cloned()
    }

    /// The same with one slot at another server.
    pub(super) fn with(&self, slot: Slot, server: &Arc<Server>) -> Self {
        let mut map = self.clone();
        map.owners[slot.index()] = map.number_of(server);
        map
    }

    fn number_of(&mut self, server: &Arc<Server>) -> u16 {
        let known = self.masters.iter().position(|known| Arc::ptr_eq(known, server));
        let number = known.unwrap_or_else(|| {
            self.masters.push(server.clone());
            self.masters.len() - 1
        });
        u16::try_from(number).unwrap_or(NOBODY)
    }
}

/// Asks one server after the other until one knows everything, or else takes what one knows.
pub(super) async fn ask(
    servers: &Servers,
    asking: impl Iterator<Item = &Endpoint>,
) -> Result<Map, OpenError> {
    let (server, what) = (servers.options().to_string(), "it names no server".to_owned());
    let mut best = Err(OpenError::Unreachable { server, what });
    for endpoint in asking {
        match ask_one(servers.options(), endpoint).await {
            Ok(ranges) => {
                let map = Map::new(servers, ranges);
                if map.is_whole() {
                    return Ok(map);
                }
                best = best.or(Ok(map));
            }
            Err(error) => best = best.map_err(|_| error),
        }
    }
    best
}

/// On a connection of its own: who has what is asked when something is wrong with the others.
async fn ask_one(options: &Options, endpoint: &Endpoint) -> Result<Vec<Range>, OpenError> {
    let dial = options.dial();
    let connection = dial.connect(endpoint).await?;
    let mut question = redis::cmd("CLUSTER");
    question.arg("SLOTS");
    let Ok(answer) = tokio::time::timeout(dial.limit, connection.ask(&question)).await else {
        return Err(OpenError::silent(endpoint, dial.limit));
    };
    let answer = match answer.and_then(Value::extract_error) {
        Ok(answer) => answer,
        Err(error) if error.to_string().contains("cluster support disabled") => {
            return Err(OpenError::NoCluster { server: endpoint.to_string() });
        }
        Err(error) => return Err(OpenError::said(endpoint, &error)),
    };
    let ranges = ranges(endpoint, &answer);
    let what = || "it cannot say who has which hash slots; is the cluster set up?".to_owned();
    match ranges {
        Some(ranges) if !ranges.is_empty() => Ok(ranges),
        _ => Err(OpenError::Unreachable { server: endpoint.to_string(), what: what() }),
    }
}

/// Reads the answer to `CLUSTER SLOTS`: for each range its first and last slot, then its master (host,
/// port, ...) and its replicas.
fn ranges(asked: &Endpoint, answer: &Value) -> Option<Vec<Range>> {
    let Value::Array(ranges) = answer else {
        return None;
    };
    let read = |range: &Value| {
        let Value::Array(parts) = range else {
            return None;
        };
        let [Value::Int(first), Value::Int(last), Value::Array(master), ..] = parts.as_slice()
        else {
            return None;
        };
        let (first, last) = (usize::try_from(*first).ok()?, usize::try_from(*last).ok()?);
        let host = match master.first()? {
            Value::BulkString(host) => str::from_utf8(host).ok()?,
            Value::SimpleString(host) => host,
            // Its own host, as we know it.
            Value::Nil => "",
            _ => return None,
        };
        let Some(Value::Int(port)) = master.get(1) else {
            return None;
        };
        let master = asked.at(host, u16::try_from(*port).ok()?)?;
        (first <= last && last < SLOTS).then_some(Range { first, last, master })
    };
    ranges.iter().map(read).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bulk(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let master = Value::Array(vec![host, Value::Int(port), bulk("id")]);
        let replica = Value::Array(vec![bulk("10.0.0.9"), Value::Int(1), bulk("id")]);
        Value::Array(vec![Value::Int(first), Value::Int(last), master, replica])
    }

    fn tcp(host: &str, port: u16) -> Endpoint {
        Endpoint::Tcp { host: host.to_owned(), port }
    }

    #[test]
    fn ranges_are_read_with_their_masters() {
        let answer =
            Value::Array(vec![range(0, 9, bulk("10.0.0.1"), 7), range(10, 16383, Value::Nil, 8)]);
        let read = ranges(&tcp("10.0.0.5", 6), &answer).expect("ranges");
        let expected = [
            Range { first: 0, last: 9, master: tcp("10.0.0.1", 7) },
            Range { first: 10, last: 16383, master: tcp("10.0.0.5", 8) },
        ];
        assert_eq!(read, expected);
    }

    #[test]
    fn nonsense_is_not_taken_for_a_map() {
        let here = tcp("h", 1);
        for answer in [
            Value::Okay,
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![range(0, 16384, bulk("h"), 1)]),
            Value::Array(vec![range(9, 3, bulk("h"), 1)]),
            Value::Array(vec![range(-1, 3, bulk("h"), 1)]),
            Value::Array(vec![range(0, 3, bulk("h"), 70_000)]),
            Value::Array(vec![range(0, 3, Value::Int(1), 1)]),
        ] {
            assert_eq!(ranges(&here, &answer), None, "{answer:?}");
        }
    }
}
