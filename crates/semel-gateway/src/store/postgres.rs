//! PostgreSQL: shared with other gateways, on a machine of its own, and sometimes away.

use std::sync::{Arc, Weak};
use std::time::Duration;

use semel_postgres::{OpenError, PostgresStore};
use semel_store::{Clock, Guard, Guarded, Store};
use tokio::time::{Instant, sleep};

use super::clock::ServerClock;
use crate::config::PostgresAddress;

/// How long a verb may take. Three are patient with the server, and the inner one must give up
/// first: the store (this) says most exactly what happened, the guard ([`DEADLINE`]) learns from it,
/// and the engine (3 s, `semel_engine::Limits`) tells its caller. Were the engine the first, it would
/// drop the call, nobody would have failed, and the breaker would never open.
const VERB_TIMEOUT: Duration = Duration::from_secs(2);
const DEADLINE: Duration = Duration::from_millis(2_500);
/// How often the server is asked for its time, and whether it is there at all.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Opens the store with a guard, and a clock that follows the server's.
pub(super) async fn open(
    address: &PostgresAddress,
) -> Result<(Arc<Guarded<PostgresStore>>, Arc<dyn Clock>), OpenError> {
    let store = address.options().clone().verb_timeout(VERB_TIMEOUT).open().await?;
    let guard = Guard { deadline: DEADLINE, ..Guard::default() };
    let store = Arc::new(Guarded::new(store, guard));
    let clock = Arc::new(ServerClock::unset());
    tokio::spawn(follow(Arc::downgrade(&store), clock.clone()));
    Ok((store, clock))
}

/// Sets the clock by the server's again and again, for as long as there is a store. As it asks
/// through the guard, it also is what closes an open breaker if nobody else asks.
async fn follow<S: Store>(store: Weak<S>, clock: Arc<ServerClock>) {
    let mut is_away = false;
    while let Some(store) = store.upgrade() {
        let asked = Instant::now();
        match store.health().await {
            Ok(health) => {
                clock.set(health.now, asked);
                if is_away {
                    tracing::info!("the store is back");
                }
                is_away = false;
            }
            Err(error) => {
                clock.hasten(LOOK_EVERY);
                if !is_away {
                    tracing::warn!(%error, "the store is away");
                }
                is_away = true;
            }
        }
        drop(store);
        sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use semel_core::Timestamp;
    use semel_store::{ManualClock, MemoryStore};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_clock_follows_the_server_until_the_store_is_gone() {
        let server = ManualClock::at(Timestamp::from_millis(5_000));
        let store = Arc::new(MemoryStore::with_clock(Arc::new(server.clone())));
        let clock = Arc::new(ServerClock::unset());
        let task = tokio::spawn(follow(Arc::downgrade(&store), clock.clone()));
        sleep(Duration::from_millis(1)).await;
        assert_eq!(clock.now().as_millis(), 5_001);
        // A failover to a server whose clock is ahead.
        server.advance(Duration::from_hours(1));
        sleep(LOOK_EVERY).await;
        assert_eq!(clock.now().as_millis(), 3_605_001);
        drop(store);
        task.await.unwrap();
    }

    #[test]
    fn who_is_inside_gives_up_first() {
        let engine = semel_engine::Limits::default();
        assert!(VERB_TIMEOUT < DEADLINE && DEADLINE < engine.verb_timeout);
    }
}
