//! How cost grows: with the records in the embedded store, with connections, and with bodies.

mod plot;
mod records;
mod through_gateway;

use std::fmt::Write as _;
use std::path::Path;

use crate::field::table::thousands;
use crate::figures::median;
use crate::http::tools::Tools;
use plot::Plot;

/// How long and how far.
pub(crate) struct Limits {
    pub(crate) rounds: usize,
    pub(crate) seconds: u64,
    pub(crate) records: u64,
}

/// What was found of one thing, at each size.
struct Curve {
    name: &'static str,
    points: Vec<Point>,
}

/// Medians at one size: a rate, and a latency in milliseconds.
struct Point {
    x: f64,
    rate: f64,
    p99: f64,
}

/// One question, answered by a table and two plots.
struct Question {
    /// For file names.
    slug: &'static str,
    title: &'static str,
    x: &'static str,
    curves: Vec<Curve>,
    /// What is missing, and why.
    missing: Vec<String>,
}

/// Seconds that it takes, about.
pub(crate) fn seconds(limits: &Limits) -> f64 {
    records::seconds(limits) + through_gateway::seconds(limits)
}

/// Measures, and writes plots into a directory if there is one.
pub(crate) fn run(
    limits: &Limits,
    tools: &Tools,
    scratch: &Path,
    plots: Option<&Path>,
) -> anyhow::Result<String> {
    let mut questions = through_gateway::measure(limits, tools, scratch)?;
    questions.insert(0, records::measure(limits, scratch)?);
    let mut text = String::new();
    for question in &questions {
        text += &question.table();
        if let Some(directory) = plots {
            text += &question.draw(directory)?;
        }
    }
    Ok(text)
}

// === impl Question ===

impl Question {
    fn table(&self) -> String {
        let mut text = format!("\n### {}\n\n| {} |", self.title, self.x);
        for Curve { name, .. } in &self.curves {
            let _ = write!(text, " {name}, per second | {name}, p99 |");
        }
        let _ = writeln!(text, "\n|{}", "---|".repeat(2 * self.curves.len() + 1));
        let points = self.curves.iter().flat_map(|curve| &curve.points);
        let mut sizes: Vec<f64> = points.map(|point| point.x).collect();
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        for x in sizes {
            let cells = self.curves.iter().map(|curve| match curve.at(x) {
                Some(point) => format!("{} | {:.3}ms", thousands(point.rate), point.p99),
                None => "– | –".to_owned(),
            });
            let _ = writeln!(
                text,
                "| {} | {} |",
                plot::short(x),
                cells.collect::<Vec<_>>().join(" | ")
            );
        }
        if !self.missing.is_empty() {
            let _ = writeln!(text, "\nNot counted:\n\n- {}", self.missing.join("\n- "));
        }
        text
    }

    /// Two plots, and the Markdown that shows them.
    fn draw(&self, directory: &Path) -> anyhow::Result<String> {
        std::fs::create_dir_all(directory)?;
        let mut text = String::new();
        let folder = directory.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        for (what, label, value) in [
            ("rate", "per second", Point::rate as fn(&Point) -> f64),
            ("p99", "p99, milliseconds", Point::p99),
        ] {
            let name = format!("{}-{what}.svg", self.slug);
            let curves = self.curves.iter().map(|curve| {
                let points = curve.points.iter().map(|point| (point.x, value(point))).collect();
                (curve.name, points)
            });
            let plot = Plot { title: self.title, x: self.x, y: label, curves: curves.collect() };
            std::fs::write(directory.join(&name), plot.svg())?;
            let _ = write!(text, "\n![{}: {label}]({folder}/{name})\n", self.title);
        }
        Ok(text)
    }
}

// === impl Curve ===

impl Curve {
    fn new(name: &'static str) -> Self {
        Self { name, points: Vec::new() }
    }

    fn at(&self, x: f64) -> Option<&Point> {
        self.points.iter().find(|point| point.x.total_cmp(&x).is_eq())
    }

    /// Adds the medians of some rounds; none if there were none.
    fn push(&mut self, x: f64, rounds: &[(f64, f64)]) {
        if !rounds.is_empty() {
            let rate = median(rounds.iter().map(|round| round.0));
            let p99 = median(rounds.iter().map(|round| round.1));
            self.points.push(Point { x, rate, p99 });
        }
    }
}

// === impl Point ===

impl Point {
    fn rate(&self) -> f64 {
        self.rate
    }

    fn p99(&self) -> f64 {
        self.p99
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_all_curves_side_by_side() {
        let mut curves = [Curve::new("one"), Curve::new("other")];
        curves[0].push(1_000.0, &[(5.0, 1.0), (7.0, 3.0), (6.0, 2.0)]);
        curves[1].push(1_000.0, &[(50.0, 0.5)]);
        curves[0].push(2_000.0, &[]);
        curves[1].push(2_000.0, &[(60.0, 0.5), (80.0, 0.7)]);
        let missing = vec!["one, 2 k: no round was good".to_owned()];
        let curves = Vec::from(curves);
        let question = Question { slug: "s", title: "Records", x: "records", curves, missing };
        let text = question.table();
        assert!(
            text.contains(
                "| records | one, per second | one, p99 | other, per second | other, p99 |"
            )
        );
        assert!(text.contains("| 1 k | 6 | 2.000ms | 50 | 0.500ms |"), "{text}");
        assert!(text.contains("| 2 k | – | – | 70 | 0.600ms |"), "{text}");
        assert!(text.contains("\n- one, 2 k: no round was good\n"), "{text}");
    }
}
