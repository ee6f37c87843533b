//! What may be claimed after a deep run, for people.

use super::Totals;
use super::bound::{bound, grouped};
use super::file::{ruler, seeds};
use crate::checker::Rule;
use crate::stores::StoreKind;

/// Of this deep run alone. One that had anything wrong is no base for any claim.
pub(super) fn of(commit: &str, totals: &Totals) -> String {
    let run = format!("the deep run of {commit} (seeds {})", seeds(&totals.seeds));
    if !totals.is_good() {
        return format!(
            "**Nothing may be claimed** by {run}: {} violations, {} failed runs. See its row in the \
             ledger.",
            grouped(totals.violations),
            grouped(totals.failed)
        );
    }
    let head = format!("**What may be said**, by {run} alone: nothing was broken, no run failed.");
    let tried = "How often each rule was tried without an excuse, in all of its runs, by store. \
                 Where there is 0, nothing is said.";
    [
        head,
        bounds(totals),
        counted_runs(totals),
        tried.to_owned(),
        tried_by_store(totals, &Rule::ALL),
    ]
    .join("\n\n")
}

fn bounds(totals: &Totals) -> String {
    let head = "| N | what | so many of them break a promise at most, with 95 % confidence |";
    let mut lines = vec![head.to_owned(), ruler(3)];
    for (count, what) in totals.basis.plain.counts() {
        lines.push(format!("| {} | {what} | {} |", grouped(count), bound(count)));
    }
    lines.join("\n")
}

/// Which runs the bounds are about, and what the others had.
fn counted_runs(totals: &Totals) -> String {
    let left_out = &totals.basis.promoted;
    if left_out.runs == 0 {
        return format!(
            "Counted in all of its runs ({}): no replica was promoted, but in good order.",
            grouped(totals.runs)
        );
    }
    let had = left_out.counts().into_iter().filter(|(count, _)| *count > 0);
    let had: Vec<String> =
        had.map(|(count, what)| format!("\n- {} {what}", grouped(count))).collect();
    format!(
        "Counted in {} of its {} runs. In the others a replica was promoted, and not in good order, so \
         that most of\nwhat could go wrong would be excused. They had:\n{}",
        grouped(totals.basis.plain.runs),
        grouped(totals.runs),
        if had.is_empty() { "\n- nothing of this".to_owned() } else { had.concat() }
    )
}

/// A table of how often rules were tried without an excuse, on each store.
pub(super) fn tried_by_store(totals: &Totals, rules: &[Rule]) -> String {
    let stores = StoreKind::ALL.map(StoreKind::as_str).join(" | ");
    let mut lines = vec![format!("| rule | {stores} |"), ruler(1 + StoreKind::ALL.len())];
    for rule in rules {
        let counts = StoreKind::ALL.map(|store| grouped(totals.basis.trials(*rule, store)));
        lines.push(format!("| {rule} | {} |", counts.join(" | ")));
    }
    lines.join("\n")
}
