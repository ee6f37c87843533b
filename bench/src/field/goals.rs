//! What was asked for, and where Semel loses.

use super::roster::{
    GATEWAY_EMBEDDED, GATEWAY_POSTGRES, GATEWAY_REDIS, NGINX, NGINX_ONE, UPSTREAM,
};
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
    /// The best middleware, and how many times its rate was measured; nothing if no round counted.
    measured: Option<(&'static str, f64)>,
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
        let own = find(rows, gateway, load, connections)?.rate();
        let peers = rows.iter().filter(|row| {
            row.entry.is_goal() && row.load == load && row.connections == connections
        });
        let rates = peers.filter_map(|row| Some((row.rate()?, row.entry.name)));
        let (best, peer) = rates.max_by(|one, other| one.0.total_cmp(&other.0))?;
        let bare = bare(load).iter().filter_map(|name| find(rows, name, Load::First, connections));
        let bare = bare.filter_map(Row::rate).reduce(f64::max).map(|bare| bare / best);
        let measured = own.map(|own| (peer, own / best));
        Some(Self { gateway, load, connections, asked, measured, bare })
    }

    fn write(&self) -> String {
        let Self { gateway, load, connections, asked, measured, bare } = self;
        let (load, bare) = (load_name(*load), bare.map(|bare| format!("{bare:.1} ×")));
        let (value, reached) = match measured {
            Some((peer, ratio)) => (format!("{ratio:.1} × the best ({peer})"), ratio >= asked),
            None => ("no round counted".to_owned(), false),
        };
        let mark = if reached { "reached" } else { "**missed**" };
        format!(
            "| {gateway}: {load}, {connections} conn. | {value} | at least {asked:.0} × | {mark} | {} |\n",
            bare.unwrap_or_default()
        )
    }
}

/// The baseline without records: the best of these.
const fn bare(load: Load) -> &'static [&'static str] {
    match load {
        Load::Get | Load::First => &[NGINX, NGINX_ONE],
        // It is answered without the upstream, as by one.
        Load::Replay | Load::Duplicates => &[UPSTREAM],
    }
}

/// The goals as a table.
pub(crate) fn write_goals(rows: &[Row]) -> String {
    let mut text = String::from(
        "\nAsked of the gateway: twice the first executions per second, and five times the replays, of \
         every middleware on Node.js or Python that keeps its records on Redis. What is behind these \
         gateways is faster than those apps alone: what such an app gets from a gateway is in the rows that \
         name it. The last column is what \
         keeping no records would reach: nginx that passes requests on, and, for replays, an upstream that \
         answers each request at once.\n\n\
         | what | measured | asked | | without records |\n|---|---|---|---|---|\n",
    );
    text.extend(goals(rows).iter().map(Goal::write));
    text
}

/// Every row in which another subject is faster than one of Semel's subjects that it is compared with.
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

/// Every row in which a subject with the same protection has a lower p99.
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
    let later = |own: &Row| own.p99().filter(|own| *own > p99).map(millis);
    behind(rows, row, &millis(p99), later)
}

fn loss(rows: &[Row], row: &Row) -> Option<String> {
    let rate = row.rate()?;
    let slower =
        |own: &Row| own.rate().filter(|own| *own < rate).map(|own| format!("{:.2}", own / rate));
    behind(rows, row, &thousands(rate), slower)
}

/// A line of the table, if one of Semel's subjects is behind this row: then `by` says by how much.
fn behind(
    rows: &[Row],
    row: &Row,
    figure: &str,
    by: impl Fn(&Row) -> Option<String>,
) -> Option<String> {
    let own = row.entry.semel.iter().filter_map(|name| {
        let how = by(find(rows, name, row.load, row.connections)?)?;
        Some(format!("{name}: {how}"))
    });
    let own: Vec<String> = own.collect();
    let (load, connections, name) = (load_name(row.load), row.connections, row.entry.name);
    (!own.is_empty())
        .then(|| format!("| {load} | {connections} | {name} | {figure} | {} |\n", own.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::table::tests::row;

    #[test]
    fn a_goal_is_held_against_the_best_peer() {
        let mut rows = [
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
        assert!(
            write_goals(&rows[..4]).ends_with("**missed** |  |\n"),
            "no subject to compare with"
        );
        rows[0].samples.clear();
        let text = write_goals(&rows);
        assert!(
            text.ends_with("| no round counted | at least 5 × | **missed** | 4.5 × |\n"),
            "{text}"
        );
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
