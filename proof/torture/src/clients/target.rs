//! What a request is about: a record, by its scope, route and key.

use std::fmt::Write as _;

use crate::effects::credential;
use crate::history::Route;
use crate::rng::Rng;

use super::SCOPES;

/// Keys are drawn out of windows that move on, so that there are always fresh ones.
const OPERATIONS_PER_WINDOW: u64 = 600;
const KEYS_PER_WINDOW: usize = 64;

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Target {
    pub(super) scope: u8,
    pub(super) route: Route,
    pub(super) window: u64,
    pub(super) rank: usize,
}

/// How the body of a request looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// As it should.
    Right,
    /// The same in another format: it must not matter.
    Respelled,
    /// Another.
    Wrong,
}

// === impl Target ===

impl Target {
    /// For the so many-th operation of the run.
    pub(super) fn draw(operation: u64, rng: &mut Rng) -> Self {
        let current = operation / OPERATIONS_PER_WINDOW;
        // Some come late: what was answered long ago must still be answered so.
        let window = if rng.percent(10) { rng.between(0, current + 1) } else { current };
        let scope = u8::try_from(rng.below(usize::from(SCOPES))).unwrap_or(0);
        let route = *rng.pick(&Route::ALL);
        Self { scope, route, window, rank: rng.rank(KEYS_PER_WINDOW) }
    }

    /// The same keys in all scopes and routes, so that a mixture would show.
    pub(super) fn key(&self) -> String {
        format!("k{}-{}", self.window, self.rank)
    }

    /// The whole request.
    pub(super) fn request(&self, body: Body) -> Vec<u8> {
        let key = self.key();
        let amount = self.window * 1_000 + self.rank as u64;
        let body = match body {
            Body::Right => format!(r#"{{"key":"{key}","amount":{amount},"variant":0}}"#),
            Body::Respelled => {
                format!("{{ \"variant\": 0,\n \"amount\": {amount}, \"key\":\"{key}\" }}")
            }
            Body::Wrong => format!(r#"{{"key":"{key}","amount":{},"variant":1}}"#, amount + 1),
        };
        let mut head = self.head(body.len());
        let _ = write!(head, "idempotency-key: {key}\r\n\r\n");
        [head.into_bytes(), body.into_bytes()].concat()
    }

    /// The request without a key or a body, and without the end of its head.
    pub(super) fn head(&self, length: usize) -> String {
        format!(
            "POST /{} HTTP/1.1\r\nhost: torture\r\nauthorization: {}\r\n\
             content-type: application/json\r\ncontent-length: {length}\r\n",
            self.route,
            credential(self.scope)
        )
    }
}
