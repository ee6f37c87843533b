//! I7 at large. Trap 10: no client ever gets another's response, whatever its keys.

use std::sync::atomic::{AtomicUsize, Ordering};

use rand::seq::IndexedRandom as _;

use crate::support::{Call, Reply, Setup, Upstream, at_once};

const CLIENTS: usize = 2_000;

/// Names that look like each other, like parts of each other, or like the marks of a format.
fn credential(number: usize) -> String {
    let shapes = ["Bearer ", "bearer ", "Bearer  ", "Basic ", "", "a:", "\"", "[", "Bearer a, "];
    let shape = shapes.choose(&mut rand::rng()).expect("a shape");
    // Runs of one character: every name is the start of many others.
    let tail = "x".repeat(number % 40);
    format!("{shape}{}{tail}", number / 40)
}

/// 1,000 pairs of scopes with one key. Each client's answers carry its own canary, and never
/// another's, at the first attempt and at the second.
#[test]
fn a_thousand_pairs_with_one_key_get_their_own_answers() {
    let upstream = Upstream::with(|seen| {
        let canary = seen.header("x-canary").unwrap_or("none").to_owned();
        Reply::new(201, canary.clone()).field("X-Secret", &canary)
    });
    let gateway = Setup::before(&upstream).unsynced().start();
    let mut clients: Vec<(String, String)> = Vec::new();
    let mut known = std::collections::BTreeSet::new();
    for number in 0.. {
        let credential = credential(number % CLIENTS);
        // Trimmed on the wire, so that names which differ in white space at an end are the same.
        if known.insert(credential.trim().to_owned()) {
            clients.push((credential, format!("canary-{}", clients.len())));
        }
        if clients.len() == CLIENTS {
            break;
        }
    }
    let foreign = AtomicUsize::new(0);
    at_once(8, |thread| {
        for pair in clients.chunks(2).skip(thread).step_by(8) {
            for attempt in 0..2 {
                for (credential, canary) in pair {
                    let call = Call::charge("one-key").from(credential).field("X-Canary", canary);
                    let answer = call.send(&gateway);
                    let is_own = answer.text() == *canary;
                    let is_marked = answer.headers("x-secret") == [canary.as_str()];
                    if !(is_own && is_marked && answer.is_replay() == (attempt == 1)) {
                        foreign.fetch_add(1, Ordering::Relaxed);
                        println!("{credential:?} got {:?}", answer.text());
                    }
                }
            }
        }
    });
    assert_eq!(foreign.into_inner(), 0, "foreign canaries");
    assert_eq!(upstream.count(), CLIENTS);
}
