//! The slot map of a cluster.

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
    /// For each slot an index of `masters`, or `UNASSIGNED`.
    owners: Box<[u16]>,
}

const UNASSIGNED: u16 = u16::MAX;

/// A range of slots and its master.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    first: usize,
    last: usize,
    master: Endpoint,
}

// === impl Map ===

impl Map {
    fn new(servers: &Servers, ranges: Vec<Range>) -> Self {
        let mut map = Self { masters: Vec::new(), owners: vec![UNASSIGNED; SLOTS].into() };
        for range in ranges {
            let number = map.number_of(&servers.get(&range.master));
            map.owners[range.first..=range.last].fill(number);
        }
        map
    }

    /// A map in which one server has all slots.
    #[cfg(test)]
    pub(super) fn of_one(server: &Arc<Server>) -> Self {
        Self { masters: vec![server.clone()], owners: vec![0; SLOTS].into() }
    }

    /// The servers that have at least one slot.
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
        !self.owners.contains(&UNASSIGNED)
    }

    pub(super) fn server_of(&self, slot: Slot) -> Option<Arc<Server>> {
        self.masters.get(usize::from(self.owners[slot.index()])).cloned()
    }

    /// A copy with one slot assigned to another server.
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
        u16::try_from(number).unwrap_or(UNASSIGNED)
    }
}

/// Queries one server after the other until one has a complete map; otherwise takes an incomplete one.
pub(super) async fn fetch(
    servers: &Servers,
    endpoints: impl Iterator<Item = &Endpoint>,
) -> Result<Map, OpenError> {
    let (server, what) = (servers.options().to_string(), "it names no server".to_owned());
    let mut best = Err(OpenError::Unreachable { server, what });
    for endpoint in endpoints {
        match fetch_from(servers.options(), endpoint).await {
            Ok(ranges) => {
                let map = Map::new(servers, ranges);
                if map.is_whole() {
                    return Ok(map);
                }
                best = best.or(Ok(map));
            }
            Err(error) => best = best.map_err(|before| before.or(error)),
        }
    }
    best
}

/// On a connection of its own: the map is needed when something is wrong with the others.
async fn fetch_from(options: &Options, endpoint: &Endpoint) -> Result<Vec<Range>, OpenError> {
    let connector = options.connector();
    let connection = connector.connect(endpoint).await?;
    let mut command = redis::cmd("CLUSTER");
    command.arg("SLOTS");
    let Ok(answer) = tokio::time::timeout(connector.limit, connection.send(&command)).await else {
        return Err(OpenError::timed_out(endpoint, connector.limit));
    };
    let answer = match answer.and_then(Value::extract_error) {
        Ok(answer) => answer,
        Err(error) if error.to_string().contains("cluster support disabled") => {
            return Err(OpenError::NoCluster { server: endpoint.to_string() });
        }
        Err(error) => return Err(OpenError::reported(endpoint, &error)),
    };
    let ranges = ranges(endpoint, &answer);
    let what = || "it has no map of the hash slots; is the cluster set up?".to_owned();
    match ranges {
        Some(ranges) if !ranges.is_empty() => Ok(ranges),
        _ => Err(OpenError::Unreachable { server: endpoint.to_string(), what: what() }),
    }
}

/// Parses the reply to `CLUSTER SLOTS`: for each range its first and last slot, then its master (host,
/// port, ...) and its replicas.
fn ranges(queried: &Endpoint, answer: &Value) -> Option<Vec<Range>> {
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
            // The server's own host, as we know it.
            Value::Nil => "",
            _ => return None,
        };
        let Some(Value::Int(port)) = master.get(1) else {
            return None;
        };
        let master = queried.at(host, u16::try_from(*port).ok()?)?;
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
