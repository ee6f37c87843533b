//! The current keys, shared by all threads.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use semel_http::jwt::{KeySet, Keys};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, timeout};

use super::fetch::FETCH_MAX;

/// The current keys. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct KeyCache(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    state: watch::Sender<State>,
    asked: Notify,
    /// The shortest time from one refresh to the next that a token causes.
    pause: Duration,
}

#[derive(Debug)]
struct State {
    keys: Option<Arc<KeySet>>,
    /// How many refreshes have ended, and when the last one did.
    refreshes: u64,
    ended: Instant,
    is_refreshing: bool,
}

/// The longest refresh: a fetch, and the parsing of its result.
const REFRESH_MAX: Duration = FETCH_MAX.saturating_add(Duration::from_secs(1));

// === impl KeyCache ===

impl KeyCache {
    pub(super) fn new(pause: Duration) -> Self {
        let state = State { keys: None, refreshes: 0, ended: Instant::now(), is_refreshing: false };
        Self(Arc::new(Inner { state: watch::Sender::new(state), asked: Notify::new(), pause }))
    }

    pub(super) fn is_ready(&self) -> bool {
        self.0.state.borrow().keys.is_some()
    }

    /// Waits until a token needs newer keys.
    pub(super) async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// Whether a token may cause a refresh now.
    pub(super) fn is_due(&self) -> bool {
        let state = self.0.state.borrow();
        state.ended.elapsed() >= self.0.pause
    }

    pub(super) fn begin(&self) {
        self.0.state.send_modify(|state| state.is_refreshing = true);
    }

    /// A refresh has ended, with newer keys or without. Without, the older ones are kept.
    pub(super) fn end(&self, keys: Option<KeySet>) {
        let keys = keys.map(Arc::new);
        self.0.state.send_modify(|state| {
            if keys.is_some() {
                state.keys = keys;
            }
            state.refreshes += 1;
            state.ended = Instant::now();
            state.is_refreshing = false;
        });
    }
}

impl Keys for KeyCache {
    fn current(&self) -> Option<Arc<KeySet>> {
        self.0.state.borrow().keys.clone()
    }

    /// However many tokens need it, there is one refresh at a time, and a pause after it.
    fn renew(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            let mut state = self.0.state.subscribe();
            let (before, is_refreshing) = {
                let state = state.borrow();
                (state.refreshes, state.is_refreshing)
            };
            if !is_refreshing {
                if !self.is_due() {
                    return;
                }
                self.0.asked.notify_one();
            }
            // After a timeout, too, the token is checked once more.
            let _ = timeout(REFRESH_MAX, state.wait_for(|state| state.refreshes > before)).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const PAUSE: Duration = Duration::from_mins(1);

    /// A task whose refreshes take a second each.
    fn refreshing(cache: &KeyCache) -> Arc<AtomicUsize> {
        let (cache, refreshes) = (cache.clone(), Arc::new(AtomicUsize::new(0)));
        let counted = refreshes.clone();
        tokio::spawn(async move {
            loop {
                cache.asked().await;
                if cache.is_due() {
                    cache.begin();
                    counted.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    cache.end(None);
                }
            }
        });
        refreshes
    }

    /// Of many tokens with unknown keys one causes a refresh, and all wait for it.
    #[tokio::test(start_paused = true)]
    async fn tokens_share_one_refresh_and_then_there_is_a_pause() {
        let cache = KeyCache::new(PAUSE);
        let refreshes = refreshing(&cache);
        let began = Instant::now();
        cache.renew().await;
        assert_eq!(
            (refreshes.load(Ordering::Relaxed), began.elapsed()),
            (0, Duration::ZERO),
            "too soon"
        );
        tokio::time::advance(PAUSE).await;
        let began = Instant::now();
        let all = (0..100).map(|_| {
            let cache = cache.clone();
            tokio::spawn(async move { cache.renew().await })
        });
        for one in all.collect::<Vec<_>>() {
            one.await.unwrap();
        }
        assert_eq!((refreshes.load(Ordering::Relaxed), began.elapsed().as_secs()), (1, 1));
        cache.renew().await;
        assert_eq!(refreshes.load(Ordering::Relaxed), 1);
    }

    /// The wait for a refresh that does not end is limited.
    #[tokio::test(start_paused = true)]
    async fn the_wait_for_a_refresh_is_limited() {
        let cache = KeyCache::new(Duration::ZERO);
        let began = Instant::now();
        cache.renew().await;
        assert!(began.elapsed() <= REFRESH_MAX + Duration::from_millis(2), "{:?}", began.elapsed());
        assert!(began.elapsed() >= REFRESH_MAX);
    }
}
