//! Checks that the upstream's log and the history have the same executions.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, ensure};

use crate::history::{Event, Line};

/// How many differences are named.
const NAMED_MAX: usize = 5;

/// Executions by nonce: each beginning and end, as text, and its number.
type Events = BTreeMap<(String, String), u64>;

/// Fails if one of them has an execution, or an end of one, that the other has not. Then no verdict over
/// the history would be one over what happened.
pub(crate) fn compare(log: &Path, history: &Path) -> anyhow::Result<()> {
    let (log, history) = (events(log)?, events(history)?);
    let mut differ: Vec<&str> = Vec::new();
    for (one, other) in [(&log, &history), (&history, &log)] {
        let missing = one.iter().filter(|(key, count)| other.get(key) != Some(count));
        differ.extend(missing.map(|((nonce, _), _)| nonce.as_str()));
    }
    differ.sort_unstable();
    differ.dedup();
    let named = &differ[..differ.len().min(NAMED_MAX)];
    ensure!(
        differ.is_empty(),
        "the upstream's log and the history differ in {} executions: {}",
        differ.len(),
        named.join(", ")
    );
    Ok(())
}

fn events(path: &Path) -> anyhow::Result<Events> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut events = Events::new();
    for line in BufReader::with_capacity(1 << 16, file).lines() {
        let line = line?;
        // Most of a history is about clients, and need not be parsed.
        if !line.contains(r#""e":"begin""#) && !line.contains(r#""e":"end""#) {
            continue;
        }
        let Line { event, .. } =
            serde_json::from_str(&line).with_context(|| format!("in {}", path.display()))?;
        if let Event::Begin { nonce, .. } | Event::End { nonce, .. } = &event {
            let text = serde_json::to_string(&event)?;
            *events.entry((nonce.clone(), text)).or_default() += 1;
        }
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(t: u64, nonce: &str, status: u16) -> String {
        let event = Event::End { nonce: nonce.to_owned(), status, digest: String::new() };
        serde_json::to_string(&Line { t, event }).expect("JSON") + "\n"
    }

    fn compared(log: &str, history: &str) -> Result<(), String> {
        let directory = tempfile::tempdir().expect("a directory");
        let paths = ["log", "history"].map(|name| directory.path().join(name));
        std::fs::write(&paths[0], log).expect("written");
        std::fs::write(&paths[1], history).expect("written");
        compare(&paths[0], &paths[1]).map_err(|error| error.to_string())
    }

    #[test]
    fn the_same_ends_at_other_times_and_in_another_order_are_the_same() {
        let phase = "{\"t\":3,\"e\":\"phase\",\"name\":\"faults\"}\n";
        let history = [&end(9, "n2", 402), phase, &end(8, "n1", 201)].concat();
        compared(&(end(1, "n1", 201) + &end(2, "n2", 402)), &history).expect("the same");
    }

    #[test]
    fn a_line_in_only_one_of_both_is_named() {
        let both = end(1, "n1", 201) + &end(2, "n2", 201);
        for (log, history) in [(&both, &end(1, "n1", 201)), (&end(1, "n1", 201), &both)] {
            let error = compared(log, history).expect_err("they differ");
            assert!(error.ends_with("differ in 1 executions: n2"), "{error}");
        }
        compared(&both, &(end(1, "n1", 201) + &end(2, "n2", 402))).expect_err("another status");
        compared(&both, &(both.clone() + &end(1, "n1", 201))).expect_err("twice");
    }
}
