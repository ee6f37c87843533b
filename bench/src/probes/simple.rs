//! Probes that need nothing but requests.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;

use super::retry::{Visitor, once, outcome};
use crate::field::entrant::Entrant;
use crate::http::load::{COPIES, PATH};
use crate::http::plain::{Answer, Connection, Post};

/// Some answer first, and write their records after that.
const SETTLING: Duration = Duration::from_millis(300);

/// The same request many times at once.
pub(super) fn at_once(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    let (before, to) = (entrant.subject.executions()?, entrant.subject.address);
    let post = visitor.post("/v1/slow", "at-once");
    let together = Barrier::new(usize::try_from(COPIES)?);
    let send = || -> anyhow::Result<u16> {
        let connection = Connection::open(to);
        together.wait();
        Ok(connection?.post(&post)?.status)
    };
    let codes = thread::scope(|scope| {
        let sending: Vec<_> = (0..COPIES).map(|_| scope.spawn(send)).collect();
        let ended = sending.into_iter().map(|one| one.join().ok().context("a client panicked")?);
        ended.collect::<anyhow::Result<Vec<u16>>>()
    })?;
    let executed = entrant.subject.executions()? - before;
    Ok(format!("{}; {}", executions(executed), tally(&codes)))
}

/// The key of a settled request comes with another body.
pub(super) fn other_body(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    let first = visitor.post(PATH, "other-body");
    let second = Post { body: first.body.replace("1000", "2000"), ..first.clone() };
    let (_, again, executed) = twice(entrant, &first, &second)?;
    Ok(match (again.status, executed) {
        (200..=299, true) => format!("{}, executed", again.status),
        (200..=299, false) => format!("{}, the first request's answer", again.status),
        (status, executed) => outcome(status, executed),
    })
}

/// Another user has the same key, by chance or by guessing.
pub(super) fn other_user(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    let first = visitor.post(PATH, "other-user");
    let (_, again, executed) = twice(entrant, &first, &visitor.of_other(PATH, "other-user"))?;
    Ok(match (again.status, executed) {
        (200..=299, true) => format!("{}, executed for the other user", again.status),
        (200..=299, false) => format!("{}, the first user's answer", again.status),
        (status, executed) => outcome(status, executed),
    })
}

/// The answer is no text.
pub(super) fn bytes(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    let post = visitor.post("/v1/bytes", "bytes");
    let (first, again, executed) = twice(entrant, &post, &post)?;
    Ok(match (executed, first.body == again.body) {
        (true, _) => format!("not replayed: {}", outcome(again.status, true)),
        (false, true) => "equal".to_owned(),
        (false, false) => {
            format!("{}, other bytes ({} of {})", again.status, again.body.len(), first.body.len())
        }
    })
}

/// Headers that come twice.
pub(super) fn headers(entrant: &Entrant, visitor: &Visitor) -> anyhow::Result<String> {
    let post = visitor.post("/v1/headers", "headers");
    let (_, again, executed) = twice(entrant, &post, &post)?;
    if executed {
        return Ok(format!("not replayed: {}", outcome(again.status, true)));
    }
    // Several may stand in one line.
    let links: usize = again.values("link").map(|line| line.matches("rel=").count()).sum();
    // The answer to a replay may open a session, which is not what was replayed.
    let cookies = again.values("set-cookie").filter(|value| value.contains("Path=/"));
    let cookies = cookies.filter(|value| value.starts_with("a=") || value.starts_with("b="));
    Ok(format!("{links} `Link`, {} `Set-Cookie`", cookies.count()))
}

/// Two requests after each other, and whether the second was executed.
fn twice(entrant: &Entrant, one: &Post, other: &Post) -> anyhow::Result<(Answer, Answer, bool)> {
    let to = entrant.subject.address;
    let first = once(to, one)?;
    thread::sleep(SETTLING);
    let before = entrant.subject.executions()?;
    let again = once(to, other)?;
    Ok((first, again, entrant.subject.executions()? > before))
}

pub(super) fn executions(number: u64) -> String {
    match number {
        1 => "1 execution".to_owned(),
        _ => format!("{number} executions"),
    }
}

/// `201, 49 × 409`.
fn tally(codes: &[u16]) -> String {
    let mut counts = BTreeMap::new();
    for code in codes {
        *counts.entry(code).or_insert(0) += 1;
    }
    let parts = counts.iter().map(|(code, count)| match count {
        1 => code.to_string(),
        _ => format!("{count} × {code}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_counted() {
        assert_eq!(tally(&[409, 201, 409]), "201, 2 × 409");
        assert_eq!(executions(1), "1 execution");
        assert_eq!(executions(50), "50 executions");
    }
}
