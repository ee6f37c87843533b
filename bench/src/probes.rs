//! What subjects do with a retry in difficult moments, found by trying it.

mod crash;
mod retry;
mod simple;

use std::fmt::Write as _;
use std::thread;

use anyhow::Context as _;

use crate::field::entrant::{Entrant, Ground};
use crate::field::roster::{Entry, How};
use crate::http::stop;
use retry::Visitor;

/// About how long all take: those that wait do it at the same time.
pub(crate) const SECONDS: f64 = 150.0;

/// What was tried, as columns of the table.
const COLUMNS: [(&str, &str); 7] = [
    (
        "50 at once",
        "the same request 50 times at once, on a route that takes one second: executions, and what the 50 were answered",
    ),
    ("other body", "a settled key comes again with another amount in its body"),
    (
        "hang-up",
        "the client closes its connection while its request is executed, and retries 1.5 s later, every half second if it is answered 409",
    ),
    (
        "kill -9",
        "the app, or the gateway, is killed while a request is executed, started again, and the client retries in the same way",
    ),
    (
        "other user",
        "another user, with other credentials and a session of its own, sends the same request with the same key",
    ),
    ("bytes", "the answer is not text: all 256 bytes"),
    (
        "repeated headers",
        "the answer has two `Link` and two `Set-Cookie` headers: how many of them the replay has",
    ),
];

/// Tries all of these that protect anything. Each has its own processes, so they are tried at once.
pub(crate) fn run(entries: &[&'static Entry], ground: &Ground<'_>) -> anyhow::Result<String> {
    let probed: Vec<&'static Entry> = entries.iter().copied().filter(|e| is_probed(e)).collect();
    let mut entrants = Vec::new();
    for entry in probed {
        println!("starting {}", entry.name);
        entrants.push(Entrant::start(entry, ground)?);
    }
    let rows = thread::scope(|scope| {
        let probing: Vec<_> =
            entrants.iter_mut().map(|entrant| scope.spawn(|| probe(entrant, ground))).collect();
        let ended = probing.into_iter().map(|one| one.join().ok().context("a probe panicked")?);
        ended.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let names = entrants.iter().map(|entrant| entrant.entry);
    Ok(table(&names.zip(rows).collect::<Vec<_>>()))
}

/// The gateway is tried on two stores; what is behind it makes no difference.
fn is_probed(entry: &Entry) -> bool {
    use crate::field::roster::Store::Postgres;
    entry.protects() && !matches!(entry.how, How::Before(_) | How::Gateway(Postgres))
}

fn probe(entrant: &mut Entrant, ground: &Ground<'_>) -> anyhow::Result<[String; 7]> {
    let visitor = Visitor::new(entrant)?;
    let mut tried = Vec::new();
    for probe in [simple::at_once, simple::other_body, simple::other_user, simple::bytes] {
        stop::check()?;
        tried.push(said(probe(entrant, &visitor)));
    }
    let headers = said(simple::headers(entrant, &visitor));
    stop::check()?;
    let hang_up = said(crash::hang_up(entrant, &visitor));
    stop::check()?;
    let kill = said(crash::kill(entrant, ground, &visitor));
    stop::check()?;
    println!("tried {}", entrant.entry.name);
    let mut tried = tried.into_iter();
    let mut next = || tried.next().unwrap_or_default();
    let [at_once, other_body, other_user, bytes] = [next(), next(), next(), next()];
    Ok([at_once, other_body, hang_up, kill, other_user, bytes, headers])
}

/// A probe that fails says so in its place, in one line: what others do is still worth knowing.
fn said(result: anyhow::Result<String>) -> String {
    let told = |error: anyhow::Error| error.to_string().replace('|', "/").replace('\n', " ");
    result.unwrap_or_else(|error| format!("no answer ({})", told(error)))
}

fn table(rows: &[(&Entry, [String; 7])]) -> String {
    let mut text = String::from(
        "\nWhat each subject did in this run, with its documented set-up, on the same routes.\n\n",
    );
    for (name, meaning) in COLUMNS {
        let _ = writeln!(text, "- **{name}**: {meaning}.");
    }
    text +=
        "\n*Executions* counts how often the app's handler was entered for the key.\n\n| subject |";
    for (name, _) in COLUMNS {
        let _ = write!(text, " {name} |");
    }
    let _ = writeln!(text, "\n|{}", "---|".repeat(COLUMNS.len() + 1));
    for (entry, cells) in rows {
        let name = if entry.is_semel { format!("**{}**", entry.name) } else { entry.name.into() };
        let _ = writeln!(text, "| {name} | {} |", cells.join(" | "));
    }
    text += NOTES;
    text
}

const NOTES: &str = "
- `idempotent` has `.scope()` set to the `Authorization` header here, which is not its default.
- `axum-idempotent` keeps its records in memory here: its Redis store asks for Redis 7.4 or later. Its manual calls it a
  safety net for retries and not a guarantee, also when requests come at once.
- The Express middleware over `@node-idempotency/core` is ours (`bench/peers/node/node-idempotency.js`), as the one of
  its authors could not be had from the registry (2026-11). Like theirs it answers while the record is written. What it
  keeps of bodies and headers is its doing, not the core's.
- Semel replays `Set-Cookie` only if `replay_cookies = true`. After a crash it executes again once the lease is over
  (30 s by default); with `on_abandoned = \"hold\"`, as in the preset `payments`, it does not.
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::roster::{GATEWAY_EMBEDDED, ROSTER};

    #[test]
    fn peers_and_three_subjects_of_semel_are_tried() {
        let names: Vec<_> = ROSTER.iter().filter(|entry| is_probed(entry)).collect();
        assert_eq!(names.iter().filter(|entry| entry.is_semel).count(), 3);
        assert_eq!(names.iter().filter(|entry| !entry.is_semel).count(), 5);
    }

    #[test]
    fn an_error_text_stays_in_its_cell() {
        assert_eq!(said(Err(anyhow::anyhow!("it said:\na|b"))), "no answer (it said: a/b)");
    }

    #[test]
    fn every_column_has_a_cell() {
        let cells = ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned);
        let own = ROSTER.iter().find(|entry| entry.name == GATEWAY_EMBEDDED).expect("an entry");
        let text = table(&[(own, cells)]);
        assert!(text.contains("| **Semel gateway, embedded store** | a | b | c | d | e | f | g |"));
        let widths =
            text.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count());
        assert!(widths.clone().all(|width| width == 9), "{:?}", widths.collect::<Vec<_>>());
    }
}
