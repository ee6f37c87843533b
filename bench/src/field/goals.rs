//! What was asked for, and where Semel loses.

use super::roster::{GATEWAY_EMBEDDED, GATEWAY_POSTGRES, GATEWAY_REDIS, NGINX, UPSTREAM};
use super::rounds::{CONNECTIONS, LOADS, Row, load_name};
use super::table::{find, thousands};
use crate::figures::millis;
use crate::http::load::Load;

/// How many times the rate of the best middleware on Node.js or Python is asked of a gateway.
const ASKED: [(Load, f64); 2] = [(Load::First, 2.0), (Load::Replay, 5.0)];

/// One of them, and how it went.
#[derive(Debug)]
struct Goal {
    gateway: &'static str,
    load: Load,
    connections: usize,
    asked: f64,
    /// The best middleware, and how many times its rate was measured.
    peer: &'static str,
    ratio: f64,
    /// The same of a server that does the same without keeping anything: more can hardly be reached.
    bare: Option<f64>,
}

fn goals(rows: &[Row]) -> Vec<Goal> {
    let mut lines = Vec::new();
    for (load, asked) in ASKED {
        for connections in CONNECTIONS {
            for gateway in [GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES] {
                lines.extend(Goal::look(rows, gateway, load, connections, asked));
            }
        }
    }
    lines
}

// === impl Goal ===

impl Goal {
    fn look(
        rows: &[Row],
        gateway: &'static str,
        load: Load,
        connections: usize,
        asked: f64,
    ) -> Option<Self> {
        let own = find(rows, gateway, load, connections)?.rate()?;
        let peers = rows.iter().filter(|row| {
            row.entry.is_goal() && row.load == load && row.connections == connections
        });
        let rates = peers.filter_map(|row| Some((row.rate()?, row.entry.name)));
        let (best, peer) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let bare = find(rows, bare(load), Load::First, connections).and_then(Row::rate);
        let (ratio, bare) = (own / best, bare.map(|bare| bare / best));
        Some(Self { gateway, load, connections, asked, peer, ratio, bare })
    }

    fn write(&self) -> String {
        let Self { gateway, load, connections, asked, peer, ratio, bare } = self;
        let (load, mark) =
            (load_name(*load), if ratio >= asked { "reached" } else { "**missed**" });
        let bare = bare.map(|bare| format!("{bare:.1} ×")).unwrap_or_default();
        format!(
            "| {gateway}: {load}, {connections} conn. | {ratio:.1} × the best ({peer}) | at least {asked:.0} × | \
             {mark} | {bare} |\n"
        )
    }
}

/// Who does without records what a gateway does with them.
const fn bare(load: Load) -> &'static str {
    match load {
        Load::Get | Load::First => NGINX,
        // It is answered without the upstream, as by one.
        Load::Replay | Load::Duplicates => UPSTREAM,
    }
}

/// The goals as a table.
pub(crate) fn write_goals(rows: &[Row]) -> String {
    let mut text = String::from(
        "\nAsked of the gateway: twice the first executions per second, and five times the replays, of \
         every middleware on Node.js or Python that keeps its records on Redis. The last column is what \
         keeping no records would reach: nginx that passes requests on, and, for replays, an upstream that \
         answers each request at once.\n\n\
         | what | measured | asked | | without records |\n|---|---|---|---|---|\n",
    );
    text.extend(goals(rows).iter().map(Goal::write));
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
            row("upstream alone", Load::First, 18_000.0),
            row("nginx", Load::First, 17_000.0),
        ];
        assert_eq!(goals(&rows).len(), 1);
        let text = write_goals(&rows);
        let peer = "2.5 × the best (Express + @node-idempotency/core 1.0.11, Redis)";
        let line = format!("64 conn. | {peer} | at least 5 × | **missed** | 4.5 × |\n");
        assert!(text.ends_with(&line), "{text}");
        assert!(write_goals(&rows[..4]).ends_with("**missed** |  |\n"), "nobody to compare with");
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
