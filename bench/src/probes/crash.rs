//! Probes with a process or client that ends in the middle of an execution.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::ensure;

use super::retry::{Visitor, time_left, until_answered};
use super::simple::executions;
use crate::field::entrant::{Entrant, Ground};
use crate::http::plain::{Connection, Post};
use crate::http::upstream::SLOW;

/// How long to wait until a request that was sent is executed.
const ARRIVAL: Duration = Duration::from_secs(5);
/// Well inside of what `/v1/slow` takes.
const INTO_IT: Duration = Duration::from_millis(200);

/// The client closes its connection, waits until the work must be done, and tries again.
pub(super) fn hang_up(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    forget(entrant)?;
    let before = entrant.subject.executions()?;
    let post = visitor.post("/v1/slow", "hang-up");
    drop(send(entrant, &post)?);
    thread::sleep(SLOW + SLOW / 2);
    let first = entrant.subject.executions()? - before;
    let retried = until_answered(entrant.subject.address, &post)?;
    let all = entrant.subject.executions()? - before;
    let left = if retried.is_stuck() { time_left(entrant.redis.as_ref())? } else { String::new() };
    Ok(format!("{}; {}{left}", executions(all), retried.describe(all > first)))
}

/// The app or gateway is killed, and started again.
pub(super) fn kill(
    entrant: &mut Entrant,
    ground: &Ground<'_>,
    visitor: &Visitor,
) -> anyhow::Result<String> {
    forget(entrant)?;
    let before = entrant.subject.executions()?;
    let post = visitor.post("/v1/slow", "kill");
    let _client = send(entrant, &post)?;
    // What an app has counted goes with it; what a gateway sent on, its upstream knows.
    let counted = if entrant.subject.executes_by_itself() {
        entrant.subject.executions()? - before
    } else {
        0
    };
    entrant.subject.kill()?;
    entrant.start_again(ground)?;
    let before = if entrant.subject.executes_by_itself() { 0 } else { before };
    let first = counted + entrant.subject.executions()? - before;
    let retried = until_answered(entrant.subject.address, &post)?;
    let all = counted + entrant.subject.executions()? - before;
    let left = if retried.is_stuck() { time_left(entrant.redis.as_ref())? } else { String::new() };
    Ok(format!("{}; {}{left}", executions(all), retried.describe(all > first)))
}

/// Sends a request, and returns in the middle of its execution.
fn send(entrant: &Entrant, post: &Post) -> anyhow::Result<Connection> {
    let before = entrant.subject.executions()?;
    let mut client = Connection::open(entrant.subject.address)?;
    client.send(post)?;
    let sent = Instant::now();
    while entrant.subject.executions()? == before {
        ensure!(sent.elapsed() < ARRIVAL, "the request was not executed");
        thread::sleep(Duration::from_millis(5));
    }
    thread::sleep(INTO_IT);
    Ok(client)
}

/// Removes what earlier probes left on Redis, so that only this one's record is there.
fn forget(entrant: &Entrant) -> anyhow::Result<()> {
    if let Some(redis) = &entrant.redis {
        redis.cli(&["FLUSHALL"])?;
    }
    Ok(())
}
