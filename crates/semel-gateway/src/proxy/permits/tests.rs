//! Permits and the connect window together. How threads share permits is tested with `obtain`.

use std::time::Duration;

use super::*;

const LIMIT: Duration = Duration::from_millis(200);
const TYPICAL: Option<Duration> = Some(Duration::from_millis(10));

async fn opening(permits: &Arc<UpstreamPermits>) -> Result<Opening, NoPermit> {
    permits.opening(Local::begin(0), Instant::now() + LIMIT).await
}

/// Ten late first replies: the server is slow to accept, and the window grows slowly.
async fn be_slow(permits: &Arc<UpstreamPermits>) {
    for _ in 0..10 {
        opening(permits).await.unwrap().probation.answered(Duration::from_millis(50), TYPICAL);
    }
}

/// A regression: the wait for a slow server used up `connect_timeout`, and the request was refused because all of the
/// hundred connections were in use, with four of them open.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_to_accept_is_no_lack_of_permits() {
    let permits = Arc::new(UpstreamPermits::new(100));
    be_slow(&permits).await;
    let mut open = Vec::new();
    let began = Instant::now();
    for _ in 0..10 {
        open.push(opening(&permits).await.expect("a permit"));
    }
    // Each took at most half of its time limit.
    assert!(began.elapsed() <= LIMIT * 10 / 2, "{:?}", began.elapsed());
    assert_eq!(permits.taken(), 10);
}

#[tokio::test(start_paused = true)]
async fn the_wait_for_a_permit_ends_at_its_time_limit() {
    for is_slow in [false, true] {
        let permits = Arc::new(UpstreamPermits::new(4));
        if is_slow {
            be_slow(&permits).await;
        }
        let mut open = Vec::new();
        for _ in 0..4 {
            open.push(opening(&permits).await.unwrap());
        }
        let began = Instant::now();
        assert!(opening(&permits).await.is_err());
        let took = began.elapsed();
        assert!(took >= LIMIT && took < LIMIT * 2, "{took:?}");
        assert_eq!((permits.taken(), permits.waiting()), (4, 0));
    }
}

/// A connection of the thread cannot be used by a tunnel, nor by a request to the upstream before a reload.
#[tokio::test(start_paused = true)]
async fn a_permit_is_due_to_the_request_that_has_waited_longest() {
    let permits = Arc::new(UpstreamPermits::new(1));
    let far = Instant::now() + LIMIT * 100;
    let permit = permits.acquire(None, far).await.unwrap();
    let own = Local::begin(7);
    for pool in [None, Some(8), Some(7)] {
        let of = pool.map(Local::begin);
        let mut waiting = Box::pin(permits.acquire(of, far));
        assert!(timeout_at(Instant::now(), &mut waiting).await.is_err());
        assert!(!permit.promise_elsewhere(Local::begin(7)), "as long as the next");
        tokio::time::advance(LIMIT).await;
        assert_eq!(permit.promise_elsewhere(Local::begin(7)), pool != Some(7), "{pool:?}");
        // Its thread may not have noticed yet: no second connection is closed for it.
        assert!(!permit.promise_elsewhere(Local::begin(7)), "it has been promised one");
        tokio::time::advance(LIMIT).await;
        assert_eq!(permit.promise_elsewhere(Local::begin(7)), pool != Some(7), "it got none");
        assert!(!permit.promise_elsewhere(own), "the first of all");
        drop(waiting);
        assert!(!permit.promise_elsewhere(Local::begin(7)), "it has gone");
    }
}

/// A request that waits for the window has a permit, and no connection yet.
#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_the_window_is_no_connection() {
    let permits = Arc::new(UpstreamPermits::new(100));
    be_slow(&permits).await;
    let mut open = Vec::new();
    for connections in 1..=2 {
        open.push(opening(&permits).await.unwrap());
        assert_eq!(permits.taken(), connections);
    }
    let mut waiting = Box::pin(opening(&permits));
    assert!(timeout_at(Instant::now(), &mut waiting).await.is_err());
    assert_eq!(permits.taken(), 2);
    drop(waiting);
    assert_eq!((permits.taken(), permits.all.available_permits()), (2, 98));
}
