//! What may be claimed, and where it is written.

use super::super::{claims, marks};
use super::*;

/// A run with 500 kills of its gateways, and these faults besides.
fn run_on(store: StoreKind, seed: u64, others: &[&str]) -> Done {
    let mut done = done(seed, 40);
    let report = &mut done.report;
    store.as_str().clone_into(&mut report.store);
    report.answered_under_faults = 1_200_000;
    report.faults.insert("gateway-kill".to_owned(), 500);
    report.faults.extend(others.iter().map(|kind| ((*kind).to_owned(), 1)));
    report.trials.insert(Rule::Liveness, 40_000);
    done
}

fn claims_of(runs: &[Done]) -> String {
    let mut totals = Totals::default();
    for done in runs {
        totals.add(done);
    }
    claims::of("c0ffee", &totals)
}

#[track_caller]
fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|known| known == *line), "{line}\n\n{text}");
    }
}

#[test]
fn claims_are_bounds_by_the_rule_of_three() {
    let text = claims_of(&[
        run_on(StoreKind::Redis, 7, &["store-kill", "store-restart", "front-cut", "back-cut"]),
        run_on(StoreKind::Embedded, 8, &["disk-full"]),
    ]);
    let lines = [
        "**What may be said**, by the deep run of c0ffee (seeds 7–8) alone: nothing was broken, no run failed.",
        "| 1,000 | `kill -9` of gateways | 0.30 % |",
        "| 1 | `kill -9` of servers | nothing is said |",
        "| 2 | network faults | nothing is said |",
        "| 2 | restarts of servers | nothing is said |",
        "| 40 | takeovers of leases on redis | 7.5 % |",
        "| 0 | takeovers of leases on redis-cluster | nothing is said |",
        "| 2,400,000 | requests under faults that were answered, refusals included | 13 in 10 million |",
        "| 80,000 | keys asked for in the end | 38 in a million |",
        "Counted in all of its runs (2): no replica was promoted, but in good order.",
    ];
    assert_has(&text, &lines);
    assert!(!text.contains("on embedded"), "nobody can take over there\n{text}");
}

#[test]
fn runs_with_a_promotion_are_left_out_of_bounds() {
    let text = claims_of(&[
        run_on(StoreKind::RedisCluster, 7, &["promoted", "store-failover"]),
        run_on(StoreKind::RedisCluster, 8, &["promoted-orderly"]),
    ]);
    let lines = [
        "| 500 | `kill -9` of gateways | 0.60 % |",
        "| 0 | `kill -9` of servers | nothing is said |",
        "| 40 | takeovers of leases on redis-cluster | 7.5 % |",
        "| 1,200,000 | requests under faults that were answered, refusals included | 25 in 10 million |",
        "| 40,000 | keys asked for in the end | 75 in a million |",
        "Counted in 1 of its 2 runs. In the others a replica was promoted, and not in good order, so that most of",
        "what could go wrong would be excused. They had:",
        "- 500 `kill -9` of gateways",
        "- 1 `kill -9` of servers",
        "- 1 restarts of servers",
        "- 40 takeovers of leases on redis-cluster",
        "- 1,200,000 requests under faults that were answered, refusals included",
        "- 40,000 keys asked for in the end",
    ];
    assert_has(&text, &lines);
}

#[test]
fn rules_are_counted_by_store_in_all_runs() {
    let text = claims_of(&[
        run_on(StoreKind::Redis, 7, &[]),
        run_on(StoreKind::RedisCluster, 8, &["promoted"]),
        run_on(StoreKind::Redis, 9, &[]),
    ]);
    let lines = [
        "| rule | embedded | redis | redis-cluster | postgres | tiered |",
        "| I1 one-lease | 0 | 18 | 9 | 0 | 0 |",
        "| I10 bounded | 0 | 0 | 0 | 0 | 0 |",
        "| liveness | 0 | 80,000 | 40,000 | 0 | 0 |",
    ];
    assert_has(&text, &lines);
}

#[test]
fn a_deep_run_prints_store_rules_by_store() {
    let mut totals = Totals::default();
    for (seed, store, tried) in
        [(7, StoreKind::Redis, 5), (8, StoreKind::Postgres, 1_200), (9, StoreKind::Redis, 2)]
    {
        let mut done = run_on(store, seed, &[]);
        done.report.trials.insert(Rule::SettlingGivenUp, tried);
        done.report.trials.insert(Rule::SelfTakeover, 1);
        totals.add(&done);
    }
    let text = totals.to_string();
    let lines = [
        "tried by store:",
        "| rule | embedded | redis | redis-cluster | postgres | tiered |",
        "| I6 settling-given-up | 0 | 7 | 0 | 1,200 | 0 |",
        "| self-takeover | 0 | 2 | 0 | 1 | 0 |",
        "| full-store-keeps-outcomes | 0 | 0 | 0 | 0 | 0 |",
        "| held-unexecuted | 0 | 0 | 0 | 0 | 0 |",
    ];
    assert_has(&text, &lines);
    assert!(!text.contains("| liveness |"), "only these\n{text}");
}

#[test]
fn nothing_is_claimed_where_something_was_wrong() {
    let mut failed = run_on(StoreKind::Redis, 8, &[]);
    failed.failure = Some("a gateway ended by itself".to_owned());
    let text = claims_of(&[run_on(StoreKind::Redis, 7, &[]), failed]);
    let said = "**Nothing may be claimed** by the deep run of c0ffee (seeds 7–8): 0 violations, 1 failed \
                runs. See its row in the ledger.";
    assert_eq!(text, said);
    let mut broken = run_on(StoreKind::Redis, 7, &[]);
    broken.report.violations.push(violation());
    let text = claims_of(&[broken]);
    assert!(text.contains("(seeds 7): 1 violations, 0 failed runs"), "{text}");
    assert!(!text.contains('|') && !text.contains("may be said"), "{text}");
}

#[test]
fn claims_are_written_with_the_row_and_the_rest_stays() {
    let (begin, end) = (marks::BEGIN, marks::END);
    let empty = empty();
    let (_, columns) = empty.split_once(&format!("{end}\n\n")).expect("marks");
    let text = format!("# Proof\n\n{begin}\nOld.\n{end}\n\nBetween.\n\n{columns}\nMore.\n");
    let (file, opened) = ledger(&text);
    opened.expect("a ledger").write(&totals(&done(7, 3))).expect("a row");
    let first = rows(&file).remove(0);
    let mut second = open(&file).expect("a ledger");
    let mut sum = totals(&done(8, 1));
    second.write(&sum).expect("another row");
    sum.add(&done(9, 4));
    second.write(&sum).expect("the same row");
    let text = std::fs::read_to_string(file.path()).expect("read");
    let (before, rest) = text.split_once(begin).expect("a mark");
    let (between, after) = rest.split_once(end).expect("a mark");
    assert_eq!(before, "# Proof\n\n");
    assert_eq!(between, format!("\n\n{}\n\n", claims::of("c0ffee", &sum)));
    assert!(after.starts_with(&format!("\n\nBetween.\n\n{columns}{first}\n")), "{after}");
    assert!(after.ends_with("\n\nMore.\n"), "{after}");
}

#[test]
fn a_ledger_without_a_place_for_claims_is_refused_at_once() {
    let (begin, end) = (marks::BEGIN, marks::END);
    let swapped = empty().replace(&format!("{begin}\n{end}"), &format!("{end}\n{begin}"));
    for text in [empty().replace(begin, ""), empty().replace(end, ""), swapped] {
        let error = ledger(&text).1.expect_err(&text).to_string();
        assert!(error.contains("no place for claims") && error.contains(begin), "{error}");
    }
}
