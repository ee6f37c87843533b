//! What was asked for, and where Semel loses.

use std::fmt::Write as _;

use super::roster::{GATEWAY_EMBEDDED, GATEWAY_POSTGRES, GATEWAY_REDIS};
use super::rounds::{CONNECTIONS, LOADS, Row, load_name};
use super::table::{find, thousands};
use crate::figures::{Line, millis};
use crate::http::load::Load;

/// How many times the rate of the best middleware on Node.js or Python is asked of a gateway.
const ASKED: [(Load, f64); 2] = [(Load::First, 2.0), (Load::Replay, 5.0)];

pub(crate) fn goals(rows: &[Row]) -> Vec<Line> {
    let mut lines = Vec::new();
    for (load, asked) in ASKED {
        for connections in CONNECTIONS {
            for gateway in [GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES] {
                lines.extend(goal(rows, gateway, load, connections, asked));
            }
        }
    }
    lines
}

fn goal(rows: &[Row], gateway: &str, load: Load, connections: usize, asked: f64) -> Option<Line> {
    let own = find(rows, gateway, load, connections)?.rate()?;
    let peers = rows
        .iter()
        .filter(|row| row.entry.is_goal() && row.load == load && row.connections == connections);
    let rates = peers.filter_map(|row| Some((row.rate()?, row.entry.name)));
    let (best, name) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
    let ratio = own / best;
    Some(Line {
        what: format!("{gateway}: {}, {connections} conn.", load_name(load)),
        value: format!("{ratio:.1} × the best ({name})"),
        asked: format!("at least {asked:.0} ×"),
        reached: ratio >= asked,
    })
}

/// The goals as a table.
pub(crate) fn write_goals(lines: &[Line]) -> String {
    let mut text = String::from(
        "\nAsked of the gateway: twice the first executions per second, and five times the replays, of \
         every middleware on Node.js or Python that keeps its records on Redis.\n\n\
         | what | measured | asked | |\n|---|---|---|---|\n",
    );
    for line in lines {
        let mark = if line.reached { "reached" } else { "**missed**" };
        let _ = writeln!(text, "| {} | {} | {} | {mark} |", line.what, line.value, line.asked);
    }
    text
}

/// Every row in which somebody is faster than one of Semel's subjects that it is held against.
pub(crate) fn write_losses(rows: &[Row]) -> String {
    let found: String = by_load(rows).filter_map(|row| loss(rows, row)).collect();
    if found.is_empty() {
        return "\nIn no row was another subject faster than one of Semel's.\n".to_owned();
    }
    format!(
        "\nEvery row in which another subject was faster than one of Semel's, and what part of its rate \
         Semel's reached. nginx passes requests on and keeps no records. The embedded store and PostgreSQL \
         sync what Redis does not: see what a record survives, above. An app behind the gateway is one \
         process more than an app with a middleware.\n\n\
         | load | connections | faster | requests/s | Semel's, and its part |\n|---|---|---|---|---|\n{found}"
    )
}

/// Every row in which somebody who protects as well has a lower p99.
pub(crate) fn write_delays(rows: &[Row]) -> String {
    let protecting = by_load(rows).filter(|row| row.entry.protects());
    let found: String = protecting.filter_map(|row| delay(rows, row)).collect();
    if found.is_empty() {
        return "\nIn no row had another middleware a lower p99 than one of Semel's subjects.\n"
            .to_owned();
    }
    format!(
        "\nEvery row in which another middleware had a lower p99 than one of Semel's subjects.\n\n\
         | load | connections | lower | p99 | Semel's |\n|---|---|---|---|---|\n{found}"
    )
}

fn by_load(rows: &[Row]) -> impl Iterator<Item = &Row> {
    LOADS.iter().flat_map(|load| rows.iter().filter(move |row| row.load == *load))
}

fn delay(rows: &[Row], row: &Row) -> Option<String> {
    let p99 = row.p99()?;
    let later = row.entry.semel.iter().filter_map(|name| {
        let own = find(rows, name, row.load, row.connections)?.p99()?;
        (own > p99).then(|| format!("{name}: {}", millis(own)))
    });
    let later: Vec<String> = later.collect();
    (!later.is_empty()).then(|| {
        format!(
            "| {} | {} | {} | {} | {} |\n",
            load_name(row.load),
            row.connections,
            row.entry.name,
            millis(p99),
            later.join("; ")
        )
    })
}

fn loss(rows: &[Row], row: &Row) -> Option<String> {
    let rate = row.rate()?;
    let slower = row.entry.semel.iter().filter_map(|name| {
        let own = find(rows, name, row.load, row.connections)?.rate()?;
        (own < rate).then(|| format!("{name}: {:.2}", own / rate))
    });
    let slower: Vec<String> = slower.collect();
    (!slower.is_empty()).then(|| {
        format!(
            "| {} | {} | {} | {} | {} |\n",
            load_name(row.load),
            row.connections,
            row.entry.name,
            thousands(rate),
            slower.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::table::tests::row;

    #[test]
    fn a_goal_is_held_against_the_best_peer() {
        let rows = [
            row(GATEWAY_REDIS, Load::Replay, 10_000.0),
            row("express-idempotency", Load::Replay, 1_000.0),
            row("node-idempotency", Load::Replay, 4_000.0),
            row("idempotent 2.0.0", Load::Replay, 20_000.0),
        ];
        let goals = goals(&rows);
        assert_eq!(goals.len(), 1);
        assert!(!goals[0].reached && goals[0].value.starts_with("2.5 ×"), "{}", goals[0].value);
        assert!(goals[0].value.contains("node-idempotency"), "{}", goals[0].value);
    }

    #[test]
    fn losses_are_said() {
        let rows = [
            row(GATEWAY_REDIS, Load::First, 10_000.0),
            row("axum + Semel layer", Load::First, 21_000.0),
            row("idempotent 2.0.0", Load::First, 20_000.0),
        ];
        let text = write_losses(&rows);
        assert!(text.contains("Redis | 20,000 | Semel gateway, Redis: 0.50 |"), "{text}");
        assert!(!text.contains("Semel layer"), "the layer was faster: {text}");
        assert!(write_losses(&rows[..2]).contains("no row"));
    }

    #[test]
    fn a_higher_p99_is_said_too() {
        let mut rows = [
            row("nginx", Load::First, 30_000.0),
            row(GATEWAY_REDIS, Load::First, 10_000.0),
            row("express-idempotency", Load::First, 2_000.0),
        ];
        assert!(write_delays(&rows).contains("no row"));
        rows[1].samples[0].p99 *= 2;
        let text = write_delays(&rows);
        assert!(text.contains("Redis | 3.00ms | Semel gateway, Redis: 6.00ms |"), "{text}");
        assert!(!text.contains("nginx"), "it keeps no records: {text}");
    }
}
