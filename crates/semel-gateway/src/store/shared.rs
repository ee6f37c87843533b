//! A store on a server, which other gateways share and which may have outages.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{Clock, Guard, Guarded, ServerClock, Store};

/// The time limit of a verb. There are three, and the inner one must expire first: the store's (this one) reports most
/// exactly what happened, the guard's ([`DEADLINE`]) counts a failure, and the engine's (3 s, `semel_engine::Limits`)
/// fails the call. If the engine's expired first, it would drop the call, no failure would be counted, and the breaker
/// would never open.
pub(super) const VERB_TIMEOUT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_millis(2_500);

/// Puts a guard around a store, and returns a clock that follows the server's.
pub(super) fn guarded<S: Store>(store: S) -> (Arc<Guarded<S>>, Arc<dyn Clock>) {
    let guard = Guard { deadline: DEADLINE, ..Guard::default() };
    let store = Arc::new(Guarded::new(store, guard));
    let clock = ServerClock::follow(&store);
    (store, clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inner_timeouts_are_shorter_than_outer_ones() {
        let engine = semel_engine::Limits::default();
        assert!(VERB_TIMEOUT < DEADLINE && DEADLINE < engine.verb_timeout);
    }
}
