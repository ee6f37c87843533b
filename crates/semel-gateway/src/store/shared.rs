//! A store that is shared with other gateways, on a machine of its own, and sometimes away.

use std::sync::Arc;
use std::time::Duration;

use semel_store::{Clock, Guard, Guarded, ServerClock, Store};

/// How long a verb may take. Three are patient with the server, and the inner one must give up
/// first: the store (this) says most exactly what happened, the guard ([`DEADLINE`]) learns from it,
/// and the engine (3 s, `semel_engine::Limits`) tells its caller. Were the engine the first, it would
/// drop the call, nobody would have failed, and the breaker would never open.
pub(super) const VERB_TIMEOUT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_millis(2_500);

/// Puts a guard around a store, and gives a clock that follows the server's.
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
    fn who_is_inside_gives_up_first() {
        let engine = semel_engine::Limits::default();
        assert!(VERB_TIMEOUT < DEADLINE && DEADLINE < engine.verb_timeout);
    }
}
