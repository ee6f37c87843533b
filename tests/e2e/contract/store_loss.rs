//! The store fails for real: its disk is full.

use std::ops::Deref;

use crate::support::{Call, Gate, Gateway, Mount, Reply, Setup, Upstream, eventually};

/// An upstream with a gate before `/held`.
struct Gated {
    upstream: Upstream,
    gate: Gate,
}

impl Deref for Gated {
    type Target = Upstream;

    fn deref(&self) -> &Upstream {
        &self.upstream
    }
}

impl Gated {
    fn start() -> Self {
        let gate = Gate::default();
        let inside = gate.clone();
        let upstream = Upstream::with(move |seen| {
            if seen.target == "/held" {
                inside.pass();
            }
            match seen.target.as_str() {
                // Does not compress, so that no corner of a full disk holds it.
                "/held" | "/fill" => Reply::new(201, random(1 << 20)),
                _ => Reply::created(&format!(r#"{{"charge":{}}}"#, seen.number)),
            }
        });
        Self { upstream, gate }
    }
}

/// Bytes that do not compress.
pub(crate) fn random(length: usize) -> Vec<u8> {
    (0..length).map(|_| rand::random()).collect()
}

/// A gateway on a small disk: `/closed` and `/open` by what they do without a store.
fn on_a_small_disk() -> Option<(Mount, Gated, Gateway)> {
    let disk = match Mount::new(64 << 20) {
        Ok(disk) => disk,
        Err(why) => {
            println!("NOT RUN: the store on a full disk: {why}");
            return None;
        }
    };
    let upstream = Gated::start();
    let gateway = Setup::before(&upstream)
        .store_in(&disk.path().join("store"))
        .route("POST /open", "on_store_down = \"open\"")
        .route("POST /closed", "on_store_down = \"closed\"")
        .start();
    Some((disk, upstream, gateway))
}

fn post(path: &str, key: &str) -> Call {
    Call::new("POST", path).key(key).json("{}")
}

/// Fills the disk until the store refuses a claim.
fn fill(disk: &Mount, gateway: &Gateway) {
    disk.fill();
    let mut number = 0;
    eventually("the store refuses", || {
        number += 1;
        let answer = post("/fill", &format!("fill-{number}")).send(gateway);
        (answer.status == 503).then_some(())
    });
}

/// Row "store unreachable, `on_store_down = "closed"`" (default): 503, `Retry-After`, nothing
/// executed. Trap 14: at once, not after a time-out for each.
#[test]
fn without_a_store_a_closed_route_executes_nothing() {
    let Some((disk, upstream, gateway)) = on_a_small_disk() else { return };
    let kept = post("/closed", "kept").send(&gateway);
    fill(&disk, &gateway);
    let before = upstream.count();
    for number in 0..10 {
        let answer = post("/closed", &format!("c-{number}")).send(&gateway);
        answer.assert_problem(503, "idempotency_store_unavailable", true);
        assert!(answer.retry_after().is_some());
    }
    assert_eq!(upstream.count(), before);
    assert!(gateway.metrics().attempts("store_unavailable") >= 10.0);
    assert_eq!(gateway.ask("/health").status, 200);
    // And when there is space again, it goes on by itself.
    disk.empty();
    eventually("the store is back", || {
        (post("/closed", "c-0").send(&gateway).status == 201).then_some(())
    });
    let replay = post("/closed", "kept").send(&gateway);
    assert_eq!((replay.is_replay(), replay.body), (true, kept.body));
    assert_eq!(upstream.executions("c-0"), 1);
}

/// Row "… `on_store_down = "open"`": executed, and said so in the answer, the metrics and the log.
/// Trap 15.
#[test]
fn without_a_store_an_open_route_executes_and_says_so() {
    let Some((disk, upstream, gateway)) = on_a_small_disk() else { return };
    fill(&disk, &gateway);
    let before = upstream.count();
    for _ in 0..2 {
        let answer = post("/open", "o-1").send(&gateway);
        assert_eq!((answer.status, answer.header("x-idempotency-bypassed")), (201, Some("true")));
        assert_eq!(answer.header("x-idempotency-expires"), None, "nothing will be replayed");
    }
    assert_eq!(upstream.count(), before + 2);
    assert_eq!(upstream.fences("o-1"), [0; 0], "there is no lease, so there is no fence");
    assert!(gateway.metrics().attempts("bypassed") >= 2.0);
    let line = eventually("a line in the log", || {
        let log = gateway.log();
        log.lines().find(|line| line.contains("decision=\"bypassed\"")).map(str::to_owned)
    });
    assert!(line.contains("WARN"), "{line}");
}

/// I6: the store was lost after the execution. The client gets its outcome, marked as
/// not kept; the work is not executed again, and settled when the store is back.
#[test]
fn an_outcome_that_cannot_be_stored_is_returned_and_not_executed_again() {
    let Some((disk, upstream, gateway)) = on_a_small_disk() else { return };
    let first = post("/held", "k").begin(&gateway);
    upstream.gate.wait_for(1);
    disk.fill();
    upstream.gate.open();
    let first = first.answer();
    assert_eq!((first.status, first.body.len()), (201, 1 << 20), "{}", first.text());
    assert_eq!(first.header("x-idempotency-stored"), Some("false"));
    let early = post("/held", "k").send(&gateway);
    assert!([409, 503].contains(&early.status), "{}", early.status);
    disk.empty();
    let replay = eventually("the outcome is settled after all", || {
        let answer = post("/held", "k").send(&gateway);
        (answer.status == 201).then_some(answer)
    });
    assert!(replay.is_replay() && replay.body == first.body, "another outcome");
    assert_eq!(upstream.executions("k"), 1);
    assert!(gateway.metrics().attempts("not_stored") >= 1.0);
}
