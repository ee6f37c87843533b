//! What happened, and whether it may have.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use crate::support::{Answer, now};

/// Everything that happened. Clones share it.
#[derive(Clone, Default)]
pub(super) struct History(Arc<Mutex<Events>>);

#[derive(Default)]
struct Events {
    keys: BTreeMap<(String, String), OfKey>,
    faults: Vec<Fault>,
}

#[derive(Default)]
struct OfKey {
    /// From when to when.
    executions: Vec<(Instant, Instant)>,
    responses: Vec<Response>,
}

struct Fault {
    what: String,
    from: Instant,
    until: Instant,
}

/// The response that a client got.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// The outcome, as it is recorded.
    Outcome(Vec<u8>),
    /// The outcome, and that it could not be recorded.
    Unrecorded(Vec<u8>),
    /// The outcome is unknown.
    Unknown,
    /// Retry later.
    Later,
    /// Nothing: the connection broke.
    Nothing,
}

// === impl Response ===

impl Response {
    pub(super) fn of(answer: &Answer) -> Self {
        match (answer.status, answer.code().as_deref()) {
            (201, _) if answer.header("x-idempotency-stored") == Some("false") => {
                Self::Unrecorded(answer.body.clone())
            }
            (201, _) => Self::Outcome(answer.body.clone()),
            (409, Some("outcome_unknown")) => Self::Unknown,
            (409, Some("request_in_progress")) | (500..=599, _) => Self::Later,
            _ => panic!("an unexpected answer: {answer:?}"),
        }
    }

    pub(super) const fn is_final(&self) -> bool {
        matches!(self, Self::Outcome(_) | Self::Unknown)
    }
}

// === impl History ===

impl History {
    /// An execution that ends now.
    pub(super) fn executed(&self, path: &str, key: &str, began: Instant) {
        let mut events = self.events();
        events.of(path, key).executions.push((began, now()));
    }

    pub(super) fn responded(&self, path: &str, key: &str, response: &Response) {
        self.events().of(path, key).responses.push(response.clone());
    }

    /// A fault that began at `from` and is over now.
    pub(super) fn broke(&self, what: &str, from: Instant) {
        let fault = Fault { what: what.to_owned(), from, until: now() };
        self.events().faults.push(fault);
    }

    pub(super) fn keys(&self) -> Vec<(String, String)> {
        self.events().keys.keys().cloned().collect()
    }

    pub(super) fn check(&self) {
        let events = self.events();
        for ((path, key), of_key) in &events.keys {
            of_key.check_answers(key);
            if path == "/hold" {
                let count = of_key.executions.len();
                assert!(count <= 1, "{key} was executed {count} times under hold");
            } else {
                events.explain(key, of_key);
            }
        }
    }

    /// How many keys were executed more than once.
    pub(super) fn again(&self) -> usize {
        self.events().keys.values().filter(|of_key| of_key.executions.len() > 1).count()
    }

    pub(super) fn summary(&self) -> String {
        let again = self.again();
        let events = self.events();
        let executions = events.keys.values().map(|of_key| of_key.executions.len());
        let answers: usize = events.keys.values().map(|of_key| of_key.responses.len()).sum();
        let unknown = |of_key: &&OfKey| of_key.responses.contains(&Response::Unknown);
        format!(
            "{} keys, {answers} answers, {} executions ({again} keys more than once), {} keys unknown; faults: {}",
            events.keys.len(),
            executions.sum::<usize>(),
            events.keys.values().filter(unknown).count(),
            events.faults.iter().map(|fault| fault.what.as_str()).collect::<Vec<_>>().join(", "),
        )
    }

    fn events(&self) -> MutexGuard<'_, Events> {
        self.0.lock().expect("a history")
    }
}

// === impl Events ===

impl Events {
    fn of(&mut self, path: &str, key: &str) -> &mut OfKey {
        self.keys.entry((path.to_owned(), key.to_owned())).or_default()
    }

    /// Each further execution has a fault between it and the one before.
    fn explain(&self, key: &str, of_key: &OfKey) {
        let mut executions = of_key.executions.clone();
        executions.sort();
        for pair in executions.windows(2) {
            let (first, second) = (pair[0].0, pair[1].0);
            let explains = |fault: &Fault| fault.from <= second && first <= fault.until;
            assert!(self.faults.iter().any(explains), "{key} was executed again without a fault");
        }
    }
}

// === impl OfKey ===

impl OfKey {
    /// A key has one answer. No response says that an outcome is unknown once it is known, except that of
    /// a late holder.
    fn check_answers(&self, key: &str) {
        let mut outcomes = self.responses.iter().filter_map(|response| match response {
            Response::Outcome(body) => Some(body),
            _ => None,
        });
        if let Some(first) = outcomes.next() {
            assert!(!self.executions.is_empty(), "{key} has an outcome and was not executed");
            for other in outcomes {
                assert_eq!(other, first, "{key} has two answers");
            }
            let settled =
                self.responses.iter().position(|response| matches!(response, Response::Outcome(_)));
            let after = self.responses.iter().skip(settled.unwrap_or_default());
            let forgot = after.filter(|response| **response == Response::Unknown).count();
            assert_eq!(forgot, 0, "{key} was known, and then unknown");
        }
    }
}
