//! This gateway against another build of it, in turns.

use std::fs;
use std::path::Path;

use super::cases::{CASES, PROTECTED, UNPROTECTED, is_nginx};
use crate::figures::quantile;
use crate::http::rounds::{Case, Stage, heading};
use crate::http::tools::Tools;

/// One case, on so many connections, and the ratio of the two rates in each round.
struct Row {
    case: &'static Case,
    connections: usize,
    ratios: Vec<f64>,
}

/// What the ratios of a row amount to.
#[derive(Debug, PartialEq)]
enum Verdict {
    Faster,
    Slower,
    /// A ratio of 1 is within the spread of the rounds, or there were too few of them to know their spread.
    NotResolved,
}

/// Fewer rounds have no quartiles to speak of.
const ROUNDS_MIN: usize = 4;

/// Measures every case of the gateway with both programs, `rounds` times after one that warms up, and prints the
/// table. The order of the two changes with each round.
pub(crate) fn compare(
    tools: &Tools,
    other: &Path,
    scratch: &Path,
    rounds: usize,
    seconds: u64,
) -> anyhow::Result<()> {
    let other = tools.with_semel(other)?;
    println!("against: {}", other.versions());
    let mut stages = [start(tools, &scratch.join("this"))?, start(&other, &scratch.join("other"))?];
    let mut rows = rows();
    for round in 0..=rounds {
        println!("\n{}", heading(round, rounds));
        let seconds = if round == 0 { 1 } else { seconds };
        for row in &mut rows {
            let ratio = row.measure(&mut stages, round % 2 == 0, seconds)?;
            if round > 0 {
                row.ratios.extend(ratio);
            }
        }
    }
    print(&rows, rounds);
    Ok(())
}

fn start(tools: &Tools, scratch: &Path) -> anyhow::Result<Stage> {
    fs::create_dir(scratch)?;
    Stage::start(CASES.iter().filter(|case| !is_nginx(case)), tools, scratch)
}

fn rows() -> Vec<Row> {
    let many = CASES.iter().filter(|case| !is_nginx(case)).map(|case| (case, 64));
    let single = [(&UNPROTECTED, 1), (&PROTECTED, 1)];
    let row = |(case, connections)| Row { case, connections, ratios: Vec::new() };
    many.chain(single).map(row).collect()
}

fn print(rows: &[Row], rounds: usize) {
    println!("\n| what | against the other | quartiles of {rounds} rounds | |\n|---|---|---|---|");
    for row in rows {
        println!("| {} | {} |", row.case.what, describe(&row.ratios));
    }
    println!(
        "\nratios of requests/s, medians; `not resolved`: a ratio of 1 is between the quartiles"
    );
}

fn describe(ratios: &[f64]) -> String {
    if ratios.is_empty() {
        return "no round counted | |".to_owned();
    }
    let [low, middle, high] = [0.25, 0.5, 0.75].map(|share| quantile(ratios, share));
    let verdict = match Verdict::of(ratios) {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NotResolved => "not resolved",
    };
    format!("{middle:.3} | {low:.3} to {high:.3} | {verdict}")
}

// === impl Row ===

impl Row {
    /// The rate of this program in parts of the other's, unless one of the two rounds failed.
    fn measure(
        &self,
        stages: &mut [Stage; 2],
        is_reversed: bool,
        seconds: u64,
    ) -> anyhow::Result<Option<f64>> {
        let mut rates = [None, None];
        for index in if is_reversed { [1, 0] } else { [0, 1] } {
            let sample = stages[index].round(self.case, self.connections, seconds)?;
            rates[index] = sample.map(|sample| sample.per_second);
        }
        Ok(rates[0].zip(rates[1]).map(|(this, other)| this / other))
    }
}

// === impl Verdict ===

impl Verdict {
    fn of(ratios: &[f64]) -> Self {
        if ratios.len() < ROUNDS_MIN {
            Self::NotResolved
        } else if quantile(ratios, 0.25) > 1.0 {
            Self::Faster
        } else if quantile(ratios, 0.75) < 1.0 {
            Self::Slower
        } else {
            Self::NotResolved
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_within_the_spread_is_not_resolved() {
        assert_eq!(Verdict::of(&[0.9, 0.95, 1.02, 1.1]), Verdict::NotResolved);
        assert_eq!(Verdict::of(&[0.90, 0.92, 0.93, 0.95, 1.3]), Verdict::Slower, "one good round");
        assert_eq!(Verdict::of(&[0.8, 1.05, 1.06, 1.07, 1.1]), Verdict::Faster, "one bad round");
        assert_eq!(Verdict::of(&[0.5, 0.5, 0.5]), Verdict::NotResolved, "too few rounds");
    }

    #[test]
    fn each_case_of_the_gateway_is_compared() {
        let rows = rows();
        assert!(rows.iter().all(|row| !is_nginx(row.case)));
        assert_eq!(rows.len(), CASES.iter().filter(|case| !is_nginx(case)).count() + 2);
    }
}
