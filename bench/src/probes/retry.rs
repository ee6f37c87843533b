//! A client that retries, and its answers.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use semel_testserver::Redis;

use crate::field::entrant::Entrant;
use crate::http::plain::{Answer, Connection, Post};
use crate::http::stop;

/// How long a client goes on trying: longer than any lease here.
const TIMEOUT: Duration = Duration::from_secs(75);
const PAUSE: Duration = Duration::from_millis(500);
const CONFLICT: u16 = 409;

/// Two users of a subject.
pub(super) struct Visitor {
    sessions: Vec<String>,
}

/// What became of a retry.
#[derive(Debug)]
pub(super) struct Retried {
    /// For how long the answer was that the first one is in flight.
    pub(super) conflict: Option<Duration>,
    pub(super) status: u16,
}

// === impl Visitor ===

impl Visitor {
    pub(super) fn new(entrant: &Entrant) -> anyhow::Result<Self> {
        Ok(Self { sessions: entrant.subject.sessions(2)? })
    }

    pub(super) fn post(&self, path: &str, key: &str) -> Post {
        Post { cookie: self.sessions.first().cloned(), ..Post::new(path, key) }
    }

    pub(super) fn of_other(&self, path: &str, key: &str) -> Post {
        let credentials = "Bearer sk_bench_another_user".to_owned();
        Post { credentials, cookie: self.sessions.last().cloned(), ..Post::new(path, key) }
    }
}

// === impl Retried ===

impl Retried {
    /// `executed`: true if it was executed again for this retry.
    pub(super) fn describe(&self, executed: bool) -> String {
        let conflict = self.conflict.map(|time| format!("409 for {:.0} s", time.as_secs_f64()));
        match (conflict, self.status) {
            (Some(conflict), CONFLICT) => format!("still {conflict}"),
            (Some(conflict), status) => format!("{conflict}, then {}", outcome(status, executed)),
            (None, status) => outcome(status, executed),
        }
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.status == CONFLICT
    }
}

/// What an answer to a retry means.
pub(super) fn outcome(status: u16, executed: bool) -> String {
    match (status, executed) {
        (_, true) => format!("{status}, executed again"),
        (200..=299, false) => format!("{status}, replayed"),
        (_, false) => format!("{status}"),
    }
}

pub(super) fn once(to: SocketAddr, post: &Post) -> anyhow::Result<Answer> {
    Connection::open(to)?.post(post)
}

/// Retries while the answer is that the first one is in flight.
pub(super) fn until_answered(to: SocketAddr, post: &Post) -> anyhow::Result<Retried> {
    let began = Instant::now();
    let mut conflict = None;
    loop {
        stop::check()?;
        let status = once(to, post)?.status;
        if status != CONFLICT || began.elapsed() > TIMEOUT {
            return Ok(Retried { conflict, status });
        }
        thread::sleep(PAUSE);
        conflict = Some(began.elapsed());
    }
}

/// When the keys of a Redis end that a stuck record may be in.
pub(super) fn time_left(redis: Option<&Redis>) -> anyhow::Result<String> {
    let Some(redis) = redis else {
        return Ok(String::new());
    };
    let mut left = Vec::new();
    for key in redis.cli(&["KEYS", "*"])?.lines().filter(|key| !key.is_empty()) {
        left.push(ttl(redis.cli(&["TTL", key])?.trim()));
    }
    left.sort();
    left.dedup();
    Ok(format!("; TTL in Redis: {}", left.join(", ")))
}

fn ttl(said: &str) -> String {
    match said.parse::<i64>() {
        Ok(-1) => "none".to_owned(),
        Ok(seconds @ 7_200..) => format!("{:.1} h", seconds as f64 / 3_600.0),
        Ok(seconds) => format!("{seconds} s"),
        Err(_) => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_told_apart() {
        let retried = |seconds: Option<u64>, status| Retried {
            conflict: seconds.map(Duration::from_secs),
            status,
        };
        assert_eq!(retried(None, 201).describe(false), "201, replayed");
        assert_eq!(retried(Some(31), 201).describe(true), "409 for 31 s, then 201, executed again");
        assert_eq!(retried(Some(75), 409).describe(false), "still 409 for 75 s");
        assert_eq!(outcome(422, false), "422");
    }

    #[test]
    fn times_to_live_are_readable() {
        assert_eq!(ttl("-1"), "none");
        assert_eq!(ttl("86330"), "24.0 h");
        assert_eq!(ttl("59"), "59 s");
    }
}
