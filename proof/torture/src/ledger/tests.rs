//! Rows of the ledger, and their sums.

mod claims;

use super::file::{COLUMNS, empty, ruler};
use super::*;
use crate::checker::{Rule, Subject, Violation};
use crate::nemesis::Kind;
use crate::stores::StoreKind;

fn done(seed: u64, takeovers: u64) -> Done {
    let mut report = Report::default();
    (report.seed, report.store, report.takeovers) = (seed, "redis".to_owned(), takeovers);
    report.faulty_micros = 90 * 36_000_000;
    (report.requests_under_faults, report.last_reads) = (50, 4);
    report.faults.insert("gateway-kill".to_owned(), 2);
    report.trials.insert(Rule::OneLease, 9);
    Done { report, failure: None, missing: None, kept: None }
}

fn violation() -> Violation {
    let (rule, subject) = (Rule::OneAnswer, Subject::Gateway(0));
    Violation { rule, subject, lines: Vec::new(), what: String::new() }
}

fn totals(done: &Done) -> Totals {
    let mut totals = Totals::default();
    totals.add(done);
    totals
}

fn ledger(text: &str) -> (tempfile::NamedTempFile, anyhow::Result<Ledger>) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("written");
    let ledger = open(&file);
    (file, ledger)
}

/// Another deep run.
fn open(file: &tempfile::NamedTempFile) -> anyhow::Result<Ledger> {
    let terms = Terms { stores: vec![StoreKind::Redis, StoreKind::Postgres], seconds: 100 };
    Ledger::of_commit(file.path(), terms, "c0ffee".to_owned())
}

fn rows(file: &tempfile::NamedTempFile) -> Vec<String> {
    let text = std::fs::read_to_string(file.path()).expect("read");
    text.lines().skip_while(|line| *line != ruler(COLUMNS)).skip(1).map(str::to_owned).collect()
}

#[test]
fn a_row_grows_with_its_deep_run_and_stays_when_that_is_over() {
    let (file, opened) = ledger(&format!("# Proof\n\n{}\nMore.\n", empty()));
    let mut first = opened.expect("a ledger");
    let mut sum = totals(&done(7, 3));
    first.write(&sum).expect("a row");
    sum.add(&done(8, 1));
    first.write(&sum).expect("the same row");
    open(&file).expect("a ledger").write(&totals(&done(9, 4))).expect("another row");
    let rows = rows(&file);
    let of_first =
        "| c0ffee | 2 | 0 | 7–8 | redis, postgres | 100 | 1.80 | 100 | 8 | 0 | redis 4 |";
    assert!(rows[0].contains(of_first), "{rows:?}");
    assert!(rows[0].ends_with("| gateway-kill 4 | I1 one-lease 18 |"), "{rows:?}");
    assert!(rows[1].contains("| c0ffee | 1 | 0 | 9 | redis, postgres |"), "{rows:?}");
    let all = "- All rows together: 3 runs; 0 failed runs; 2.70 hours of faults; 150 requests under faults";
    assert!(rows[3].starts_with(all), "{rows:?}");
    assert!(rows[3].contains("6 kill -9") && rows[3].contains("takeovers: redis 8; "), "{rows:?}");
    assert_eq!(rows[4], "- Faults: gateway-kill 6.");
    assert_eq!(rows[5], "- Tried without an excuse: I1 one-lease 27.");
    assert_eq!(rows[6..], ["", "More."]);
    assert!(open(&file).expect("a ledger").is_summed_up().expect("sums"));
    let text = std::fs::read_to_string(file.path()).expect("read");
    std::fs::write(file.path(), text.replace(&format!("{}\n", rows[1]), "")).expect("written");
    assert!(!open(&file).expect("a ledger").is_summed_up().expect("sums"), "a row was removed");
}

#[test]
fn the_ledger_of_this_project_is_one() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/proof.md");
    let terms = Terms { stores: StoreKind::ALL.to_vec(), seconds: 100 };
    let ledger = Ledger::of_commit(&file, terms, "c0ffee".to_owned()).expect("a ledger");
    assert!(ledger.is_summed_up().expect("sums"), "a row was changed or removed by hand");
    let text = std::fs::read_to_string(&file).expect("read");
    for mark in [marks::BEGIN, marks::END] {
        assert_eq!(text.matches(mark).count(), 1, "{mark}");
    }
}

#[test]
fn seeds_go_on_where_the_ledger_ends() {
    let (file, opened) = ledger(&empty());
    let mut first = opened.expect("a ledger");
    assert_eq!(first.next_seed().expect("seeds"), 1);
    let mut sum = totals(&done(30, 0));
    sum.add(&done(31, 0));
    sum.add_unbegun(32);
    first.write(&sum).expect("a row");
    open(&file).expect("a ledger").write(&totals(&done(5, 0))).expect("a row");
    assert_eq!(open(&file).expect("a ledger").next_seed().expect("seeds"), 33);
}

#[test]
fn a_file_that_is_no_ledger_is_refused_at_once() {
    for text in ["# Proof\n", &empty().replace("|---|\n", "|\n"), &(empty() + "| 1 | 2 |\n")] {
        let error = ledger(text).1.expect_err(text).to_string();
        assert!(error.contains("ledger"), "{error}");
    }
}

#[test]
fn a_run_that_failed_counts_as_that_and_with_all_that_was_wrong_in_it() {
    let mut failed = done(7, 3);
    failed.failure = Some("a gateway ended by itself".to_owned());
    failed.report.violations.push(violation());
    let mut totals = totals(&failed);
    totals.add_unbegun(8);
    assert_eq!((totals.runs, totals.failed, totals.violations), (0, 2, 1));
    assert_eq!((totals.requests_under_faults, totals.kills()), (0, 0));
    assert!(!totals.is_good());
    let (file, ledger) = ledger(&empty());
    ledger.expect("a ledger").write(&totals).expect("a row");
    assert!(rows(&file)[0].contains("| c0ffee | 0 | 2 | 7–8 |"));
}

#[test]
fn faults_that_cannot_run_are_reported() {
    let mut without = done(7, 3);
    without.missing = Some((Kind::DiskFull, "needs root".to_owned()));
    let totals = totals(&without);
    assert_eq!(counts(&totals.faults), "disk-full NOT RUN 1, gateway-kill 2");
}
