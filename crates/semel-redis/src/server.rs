//! One server, and the connections to it.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::rests_on_a_record;
use crate::connection::{Connection, Dial};
use crate::error::{Failure, OpenError};
use crate::script::Call;
use crate::url::Endpoint;

/// A server. Verbs share a few connections to it; those that wait for replicas have one each.
#[derive(Debug)]
pub(crate) struct Server {
    endpoint: Endpoint,
    number: usize,
    /// One that it had when it was last looked for.
    key: Mutex<Option<Arc<[u8]>>>,
    dial: Dial,
    lanes: Vec<Lane>,
    alone: Alone,
}

/// A place for a connection, which is made when it is needed.
#[derive(Debug, Default)]
struct Lane {
    open: Mutex<Option<Arc<Connection>>>,
    /// Held by the one who makes it; remembers why that failed last.
    making: tokio::sync::Mutex<Option<(Instant, OpenError)>>,
}

/// Connections that are used by one verb at a time.
#[derive(Debug)]
struct Alone {
    places: Semaphore,
    /// And since when.
    idle: Mutex<Vec<(Arc<Connection>, Instant)>>,
}

/// How a verb is to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) deadline: Instant,
    /// So many replicas must have what it writes.
    pub(crate) replicas: u32,
    /// The key is on its way to this server, which must be told that we know.
    pub(crate) asking: bool,
}

/// How many verbs may wait for replicas at once, per server (I10).
const ALONE_MAX: usize = 64;
/// How long one of their connections is kept without use.
const IDLE_MAX: Duration = Duration::from_mins(1);

// === impl Server ===

impl Server {
    /// `number` tells it from the others that are known.
    pub(crate) fn new(endpoint: Endpoint, number: usize, dial: Dial, lanes: usize) -> Self {
        let lanes = (0..lanes).map(|_| Lane::default()).collect();
        let alone = Alone { places: Semaphore::new(ALONE_MAX), idle: Mutex::default() };
        Self { endpoint, number, key: Mutex::default(), dial, lanes, alone }
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// A key that is fit, as the last one was, or else as `find` finds one.
    pub(crate) fn remembered_key(
        &self,
        is_fit: impl Fn(&[u8]) -> bool,
        find: impl FnOnce() -> Option<Vec<u8>>,
    ) -> Option<Arc<[u8]>> {
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if !key.as_ref().is_some_and(|key| is_fit(key)) {
            *key = find().map(Arc::from);
        }
        key.clone()
    }

    /// Calls a script. A connection that broke may have been an old one, so the question is asked once
    /// more: whatever came of it the first time, that does no harm.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call<'_>,
        terms: Terms,
    ) -> Result<Value, Failure> {
        let first = match self.call_once(call, terms).await {
            Err(Failure::Broken(first)) => first,
            answer => return answer,
        };
        // What is rare is boxed: every verb would make room for it, and be moved about with it.
        Box::pin(self.call_again(call, terms, first)).await
    }

    async fn call_again(
        self: &Arc<Self>,
        call: &Call<'_>,
        terms: Terms,
        first: RedisError,
    ) -> Result<Value, Failure> {
        match self.call_once(call, terms).await {
            Err(again) if !again.maybe_applied() => Err(Failure::Broken(first)),
            answer => answer,
        }
    }

    async fn call_once(self: &Arc<Self>, call: &Call<'_>, terms: Terms) -> Result<Value, Failure> {
        if terms.replicas == 0 {
            return self.call_shared(call, terms).await;
        }
        Box::pin(self.call_alone(call, terms)).await
    }

    async fn call_shared(
        self: &Arc<Self>,
        call: &Call<'_>,
        terms: Terms,
    ) -> Result<Value, Failure> {
        let own = self.own_lane();
        let connection = match self.lanes[own].open() {
            Some(open) => open,
            None => Box::pin(self.in_time(terms, self.connected(own))).await?,
        };
        connection.call(call, terms).await
    }

    /// On a connection of its own, on which it then waits for replicas.
    async fn call_alone(&self, call: &Call<'_>, terms: Terms) -> Result<Value, Failure> {
        let Ok(Ok(place)) = timeout_at(terms.deadline, self.alone.places.acquire()).await else {
            let server = self.endpoint.to_string();
            return Err(Failure::Unasked(OpenError::Busy { server, max: ALONE_MAX }));
        };
        let connecting = async {
            match self.alone.take() {
                Some(idle) => Ok(idle),
                None => self.connect().await,
            }
        };
        let connection = self.in_time(terms, connecting).await?;
        let asked = confirmed(&connection, call, terms);
        let answer = timeout_at(terms.deadline, asked).await.unwrap_or(Err(Failure::Silent));
        // Given back before its place, so that no more are open than there are places.
        if !matches!(answer, Err(Failure::Broken(_) | Failure::Silent | Failure::Unconfirmed(_))) {
            self.alone.give_back(connection);
        }
        drop(place);
        answer
    }

    /// What comes before a question is asked.
    async fn in_time<T>(
        &self,
        terms: Terms,
        preparing: impl Future<Output = Result<T, OpenError>>,
    ) -> Result<T, Failure> {
        match timeout_at(terms.deadline, preparing).await {
            Ok(ready) => ready.map_err(Failure::Unasked),
            Err(_) => Err(Failure::Unasked(OpenError::silent(&self.endpoint, self.dial.limit))),
        }
    }

    /// May we wait for replicas?
    pub(crate) async fn check_wait(self: &Arc<Self>) -> Result<(), OpenError> {
        let connection = self.connection().await?;
        let waiting = connection.wait(0, Duration::from_millis(1));
        match timeout(self.dial.limit, waiting).await {
            Ok(waited) => waited.map(drop).map_err(|error| OpenError::said(&self.endpoint, &error)),
            Err(_) => Err(OpenError::silent(&self.endpoint, self.dial.limit)),
        }
    }

    /// A connection for other questions than those of the store.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, OpenError> {
        self.connected(self.own_lane()).await
    }

    /// The lane of this thread.
    fn own_lane(&self) -> usize {
        own_number() % self.lanes.len()
    }

    /// The connection of a lane. It is made in a task of its own: whoever gives up waiting for it leaves it
    /// to the next.
    async fn connected(self: &Arc<Self>, number: usize) -> Result<Arc<Connection>, OpenError> {
        if let Some(open) = self.lanes[number].open() {
            return Ok(open);
        }
        let (here, came) = (self.clone(), Instant::now());
        let making = tokio::spawn(async move { here.make(number, came).await });
        let gone = |_| OpenError::silent(&self.endpoint, self.dial.limit);
        making.await.map_err(gone)?
    }

    async fn make(&self, number: usize, came: Instant) -> Result<Arc<Connection>, OpenError> {
        let lane = &self.lanes[number];
        let mut making = lane.making.lock().await;
        if let Some(open) = lane.open() {
            return Ok(open);
        }
        // Whoever waited for another's try is told how that went.
        if let Some((_, error)) = making.as_ref().filter(|(failed, _)| *failed >= came) {
            return Err(error.clone());
        }
        match self.connect().await {
            Ok(connection) => {
                *making = None;
                *lane.lock() = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                *making = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, OpenError> {
        let connection = self.dial.connect(&self.endpoint).await?;
        let loading = timeout(self.dial.limit, connection.load());
        match loading.await {
            Ok(Ok(())) => Ok(Arc::new(connection)),
            Ok(Err(error)) => Err(OpenError::said(&self.endpoint, &error)),
            Err(_) => Err(OpenError::silent(&self.endpoint, self.dial.limit)),
        }
    }
}

// === impl Lane ===

impl Lane {
    /// Its connection, if more may be asked there. Those who still wait for answers on another keep that
    /// one open.
    fn open(&self) -> Option<Arc<Connection>> {
        let mut open = self.lock();
        open.take_if(|open| !open.is_open());
        open.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Alone ===

impl Alone {
    fn take(&self) -> Option<Arc<Connection>> {
        let mut idle = self.lock();
        idle.retain(|(connection, since)| connection.is_open() && since.elapsed() < IDLE_MAX);
        idle.pop().map(|(connection, _)| connection)
    }

    fn give_back(&self, connection: Arc<Connection>) {
        self.lock().push((connection, Instant::now()));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Arc<Connection>, Instant)>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer that so many replicas have what it rests on.
async fn confirmed(
    connection: &Connection,
    call: &Call<'_>,
    terms: Terms,
) -> Result<Value, Failure> {
    let answer = connection.call(call, terms).await?;
    if !rests_on_a_record(&answer) {
        return Ok(answer);
    }
    // The server gives up a little earlier than we do, so that we hear how far it came.
    let limit = terms.deadline.saturating_duration_since(Instant::now()).mul_f64(0.8);
    match connection.wait(terms.replicas, limit).await {
        Ok(have) if have >= terms.replicas => Ok(answer),
        Ok(have) => Err(Failure::FewReplicas { have }),
        Err(error) => Err(Failure::Unconfirmed(error)),
    }
}

/// A number of this thread's own. A thread that keeps to one connection, and drives it, needs no other
/// to be woken for an answer.
fn own_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        own.get().unwrap_or_else(|| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            own.set(Some(number));
            number
        })
    })
}
