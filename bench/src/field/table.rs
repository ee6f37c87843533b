//! The figures as Markdown.

use std::fmt::Write as _;

use super::roster::{Entry, GATEWAY_REDIS};
use super::rounds::{CONNECTIONS, LOADS, Row, load_name};
use crate::figures::{median, millis};
use crate::http::load::Load;
use crate::http::rounds::Sample;

/// All subjects in one table, and below it one for each load and number of connections.
pub(crate) fn write(rows: &[Row]) -> String {
    let mut text = overview(rows);
    for load in LOADS {
        let _ = write!(text, "\n### {}\n\n{}\n", title(load), meaning(load));
        for connections in CONNECTIONS {
            text += &detail(rows, load, connections);
        }
    }
    text + &not_counted(rows)
}

fn not_counted(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        for fault in &row.faults {
            let (name, load) = (row.entry.name, load_name(row.load));
            let _ = writeln!(text, "- {name}, {load}, {} connections, {fault}", row.connections);
        }
    }
    if text.is_empty() { text } else { format!("\nRounds that did not count:\n\n{text}") }
}

/// What must be known to read it.
const ABOUT: &str = "\
Semel's gateways stand before the upstream of the first row, unless their name says what is behind them. Replays come
from their own memory, where the last ones are kept; the layer and the peers ask Redis for each. *Of Semel* is against
the subject of Semel that is most alike: for first executions of a peer the same app behind the gateway, or with the
layer; for replays, which the app does not hear of, the gateway on Redis, or the layer.
";

fn overview(rows: &[Row]) -> String {
    let mut text =
        format!("\n{ABOUT}\nRequests per second, medians, at 1 / 64 / 256 connections:\n\n");
    text += "| subject | first executions | replays | 50-way duplicates | executions per key, 64 connections | a record survives |\n";
    text += "|---|---|---|---|---|---|\n";
    for entry in entries(rows) {
        let cells = LOADS.map(|load| {
            let rates = CONNECTIONS.map(|connections| {
                find(rows, entry.name, load, connections).and_then(Row::rate).map(thousands)
            });
            match rates {
                [None, None, None] => String::new(),
                rates => rates.map(|rate| rate.unwrap_or_else(|| "–".to_owned())).join(" / "),
            }
        });
        let per_key = find(rows, entry.name, Load::Duplicates, 64).map(executions);
        let per_key = per_key.unwrap_or_default();
        let [first, replays, duplicates] = cells;
        let _ = writeln!(
            text,
            "| {} | {first} | {replays} | {duplicates} | {per_key} | {} |",
            emphasised(entry),
            entry.durability
        );
    }
    text
}

fn detail(rows: &[Row], load: Load, connections: usize) -> String {
    let own: Vec<&Row> =
        rows.iter().filter(|row| row.load == load && row.connections == connections).collect();
    if own.is_empty() {
        return String::new();
    }
    let plural = if connections == 1 { "connection" } else { "connections" };
    let mut text = format!("\n**{connections} {plural}**\n\n");
    text += "| subject | requests/s | least–most | of the app alone | of Semel | p50 | p99 |";
    text += if load == Load::Duplicates { " executions per key | refused |\n" } else { "\n" };
    text += "|---|---|---|---|---|---|---|";
    text += if load == Load::Duplicates { "---|---|\n" } else { "\n" };
    for row in own {
        let _ = writeln!(text, "| {} | {} |", emphasised(row.entry), cells(row, rows));
    }
    text
}

fn cells(row: &Row, rows: &[Row]) -> String {
    let (Some((rate, least, most)), Some(middle)) = (row.rates(), Sample::median(&row.samples))
    else {
        let more = if row.load == Load::Duplicates { " | |" } else { "" };
        return format!("no round counted | | | | |{more}");
    };
    let alone = row.entry.alone.and_then(|alone| find(rows, alone, Load::First, row.connections));
    let semel = reference(rows, row);
    let of = |other: Option<&Row>| {
        let ratio = other.and_then(Row::rate).map(|other| format!("{:.2}", rate / other));
        ratio.unwrap_or_default()
    };
    let mut cells = vec![
        thousands(rate),
        format!("{}–{}", thousands(least), thousands(most)),
        of(alone),
        of(semel),
        millis(middle.p50),
        millis(middle.p99),
    ];
    if row.load == Load::Duplicates {
        cells.push(executions(row));
        cells.push(format!("{:.0} %", median(row.refused.iter().copied()) * 100.0));
    }
    cells.join(" | ")
}

/// What the column `of Semel` is about: of Semel's subjects with this load the one that is most alike.
fn reference<'a>(rows: &'a [Row], row: &Row) -> Option<&'a Row> {
    let mut names = row.entry.semel.iter().copied().chain([GATEWAY_REDIS]);
    names.find_map(|name| find(rows, name, row.load, row.connections))
}

pub(crate) fn find<'a>(
    rows: &'a [Row],
    name: &str,
    load: Load,
    connections: usize,
) -> Option<&'a Row> {
    let is_it =
        |row: &&Row| row.entry.name == name && row.load == load && row.connections == connections;
    rows.iter().find(is_it)
}

fn entries(rows: &[Row]) -> Vec<&'static Entry> {
    let mut entries: Vec<&'static Entry> = Vec::new();
    for row in rows {
        if !entries.iter().any(|entry| entry.name == row.entry.name) {
            entries.push(row.entry);
        }
    }
    entries
}

fn emphasised(entry: &Entry) -> String {
    if entry.is_semel { format!("**{}**", entry.name) } else { entry.name.to_owned() }
}

fn executions(row: &Row) -> String {
    if row.executions.is_empty() {
        String::new()
    } else {
        format!("{:.2}", median(row.executions.iter().copied()))
    }
}

fn title(load: Load) -> String {
    let name = load_name(load);
    format!("{}{}", name[..1].to_uppercase(), &name[1..])
}

fn meaning(load: Load) -> &'static str {
    match load {
        Load::Replay => {
            "1,000 keys were settled before; each request has the next of them. A round in which one was \
             executed again does not count. *Of the app alone* is against its first executions."
        }
        Load::Duplicates => {
            "Each key comes 50 times in a row, over all connections: with one connection one after the \
             other, with 64 nearly all at once. A refusal, which should be a 409, counts as an answer."
        }
        Load::Get | Load::First => {
            "Each request has a key that was never used. A round in which fewer or more were executed than \
             were sent does not count."
        }
    }
}

/// 12345.6 as `12,346`.
pub(crate) fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::field::roster::{ROSTER, UPSTREAM};

    /// A row with one round of this rate.
    pub(crate) fn row(name: &str, load: Load, rate: f64) -> Row {
        let entry = ROSTER.iter().find(|entry| entry.name.contains(name)).expect("an entry");
        let mut row = Row::new(entry, load, 64);
        let p50 = Duration::from_millis(1);
        row.samples.push(Sample { per_second: rate, p50, p99: p50 * 3, cpu: p50 });
        row.executions.push(1.0);
        row.refused.push(0.5);
        row
    }

    #[test]
    fn rows_are_held_against_the_app_alone_and_semel() {
        let rows = [
            row(UPSTREAM, Load::First, 40_000.0),
            row(GATEWAY_REDIS, Load::First, 10_000.0),
            row("express-idempotency", Load::First, 2_000.0),
        ];
        assert_eq!(
            cells(&rows[1], &rows),
            "10,000 | 10,000–10,000 | 0.25 | 1.00 | 1.00ms | 3.00ms"
        );
        assert_eq!(cells(&rows[2], &rows), "2,000 | 2,000–2,000 |  | 0.20 | 1.00ms | 3.00ms");
        let text = write(&rows);
        assert!(text.contains("| **Semel gateway, Redis** | – / 10,000 / – |  |  |  |"), "{text}");
    }

    #[test]
    fn each_is_held_against_what_is_most_alike() {
        let rows: Vec<Row> = ROSTER
            .iter()
            .flat_map(|entry| entry.loads().iter().map(|load| row(entry.name, *load, 1.0)))
            .collect();
        let held = |name: &str, load: Load| {
            reference(&rows, &row(name, load, 1.0)).map(|row| row.entry.name)
        };
        assert_eq!(held("idempotent 2.0.0", Load::First), Some("axum + Semel layer, Redis"));
        assert_eq!(held("nginx", Load::First), Some(GATEWAY_REDIS));
        assert_eq!(held("asgi", Load::First), Some("FastAPI behind Semel gateway, Redis"));
        // An app behind the gateway hears nothing of these.
        assert_eq!(held("asgi", Load::Replay), Some(GATEWAY_REDIS));
    }

    #[test]
    fn duplicates_say_how_often_they_were_executed() {
        let mut rows = [row("node-idempotency", Load::Duplicates, 2_000.0)];
        rows[0].faults.push("round 1 of 1: 3 answers were odd".to_owned());
        assert!(not_counted(&rows).contains("64 connections, round 1 of 1: 3 answers were odd"));
        assert!(cells(&rows[0], &rows).ends_with("| 1.00 | 50 %"), "{}", cells(&rows[0], &rows));
    }

    #[test]
    fn figures_are_grouped() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_000.0), "1,000");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }
}
