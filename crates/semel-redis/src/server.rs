//! One server, and the connections to it: shared ones, and exclusive ones for verbs that wait for replicas.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::{RedisError, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};

use crate::answer::depends_on_a_record;
use crate::connection::{CallOptions, Connection, Connector};
use crate::error::{Failure, OpenError};
use crate::script::Call;
use crate::url::Endpoint;

/// A server. Verbs share a few pipelined connections; those that wait for replicas have one each.
#[derive(Debug)]
pub(crate) struct Server {
    endpoint: Endpoint,
    number: usize,
    /// A key of this server, as last found.
    key: Mutex<Option<Arc<[u8]>>>,
    connector: Connector,
    /// Each thread keeps to one of them.
    shared: Vec<SharedConnection>,
    exclusive: ExclusiveConnections,
}

/// A connection that is made on first use.
#[derive(Debug, Default)]
struct SharedConnection {
    open: Mutex<Option<Arc<Connection>>>,
    /// Held while it is made; remembers the last failure.
    connecting: tokio::sync::Mutex<Option<(Instant, OpenError)>>,
}

/// Connections that serve one verb at a time.
#[derive(Debug)]
struct ExclusiveConnections {
    permits: Semaphore,
    /// With the start of their idle time.
    idle: Mutex<Vec<(Arc<Connection>, Instant)>>,
}

/// The maximum number of verbs that wait for replicas, per server (I10).
const EXCLUSIVE_MAX: usize = 64;
/// How long an idle exclusive connection is kept.
const IDLE_MAX: Duration = Duration::from_mins(1);

// === impl Server ===

impl Server {
    /// `number` is unique among the known servers.
    pub(crate) fn new(
        endpoint: Endpoint,
        number: usize,
        connector: Connector,
        pool_max: usize,
    ) -> Self {
        let shared = (0..pool_max).map(|_| SharedConnection::default()).collect();
        let permits = Semaphore::new(EXCLUSIVE_MAX);
        let exclusive = ExclusiveConnections { permits, idle: Mutex::default() };
        Self { endpoint, number, key: Mutex::default(), connector, shared, exclusive }
    }

    pub(crate) const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(crate) const fn number(&self) -> usize {
        self.number
    }

    /// The last key if it is still fit, else one that `find` finds.
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

    /// Calls a script. A connection that broke may have been a stale one, so the call is repeated once: a
    /// repeated verb recognises itself.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call<'_>,
        options: CallOptions,
    ) -> Result<Value, Failure> {
        let first = match self.call_once(call, options).await {
            Err(Failure::Broken(first)) => first,
            answer => return answer,
        };
        // The rare path is boxed: every verb would carry its size otherwise.
        Box::pin(self.call_again(call, options, first)).await
    }

    async fn call_again(
        self: &Arc<Self>,
        call: &Call<'_>,
        options: CallOptions,
        first: RedisError,
    ) -> Result<Value, Failure> {
        match self.call_once(call, options).await {
            Err(again) if !again.maybe_applied() => Err(Failure::Broken(first)),
            answer => answer,
        }
    }

    async fn call_once(
        self: &Arc<Self>,
        call: &Call<'_>,
        options: CallOptions,
    ) -> Result<Value, Failure> {
        if options.replicas == 0 {
            return self.call_shared(call, options).await;
        }
        Box::pin(self.call_exclusive(call, options)).await
    }

    async fn call_shared(
        self: &Arc<Self>,
        call: &Call<'_>,
        options: CallOptions,
    ) -> Result<Value, Failure> {
        let own = self.of_this_thread();
        let connection = match self.shared[own].open() {
            Some(open) => open,
            None => Box::pin(self.before_deadline(options, self.connected(own))).await?,
        };
        connection.call(call, options).await
    }

    /// Calls on an exclusive connection, on which it then waits for replicas.
    async fn call_exclusive(
        &self,
        call: &Call<'_>,
        options: CallOptions,
    ) -> Result<Value, Failure> {
        let Ok(Ok(permit)) = timeout_at(options.deadline, self.exclusive.permits.acquire()).await
        else {
            let server = self.endpoint.to_string();
            return Err(Failure::NotSent(OpenError::Busy { server, max: EXCLUSIVE_MAX }));
        };
        let connecting = async {
            match self.exclusive.take() {
                Some(idle) => Ok(idle),
                None => self.connect().await,
            }
        };
        let connection = self.before_deadline(options, connecting).await?;
        let confirming = confirmed(&connection, call, options);
        let answer =
            timeout_at(options.deadline, confirming).await.unwrap_or(Err(Failure::Timeout));
        // Given back before its permit, so that there are never more connections than permits.
        if !matches!(answer, Err(Failure::Broken(_) | Failure::Timeout | Failure::Unconfirmed(_))) {
            self.exclusive.give_back(connection);
        }
        drop(permit);
        answer
    }

    /// Prepares a call within its deadline.
    async fn before_deadline<T>(
        &self,
        options: CallOptions,
        preparing: impl Future<Output = Result<T, OpenError>>,
    ) -> Result<T, Failure> {
        match timeout_at(options.deadline, preparing).await {
            Ok(ready) => ready.map_err(Failure::NotSent),
            Err(_) => {
                Err(Failure::NotSent(OpenError::timed_out(&self.endpoint, self.connector.limit)))
            }
        }
    }

    /// Checks that `WAIT` is allowed.
    pub(crate) async fn check_wait(self: &Arc<Self>) -> Result<(), OpenError> {
        let connection = self.connection().await?;
        let waiting = connection.wait(0, Duration::from_millis(1));
        match timeout(self.connector.limit, waiting).await {
            Ok(waited) => {
                waited.map(drop).map_err(|error| OpenError::reported(&self.endpoint, &error))
            }
            Err(_) => Err(OpenError::timed_out(&self.endpoint, self.connector.limit)),
        }
    }

    /// A shared connection, for commands other than verbs.
    pub(crate) async fn connection(self: &Arc<Self>) -> Result<Arc<Connection>, OpenError> {
        self.connected(self.of_this_thread()).await
    }

    /// The index of this thread's connection.
    fn of_this_thread(&self) -> usize {
        thread_number() % self.shared.len()
    }

    /// A shared connection. It is made in a task of its own, so that the attempt outlives a caller that
    /// gives up.
    async fn connected(self: &Arc<Self>, number: usize) -> Result<Arc<Connection>, OpenError> {
        if let Some(open) = self.shared[number].open() {
            return Ok(open);
        }
        let (here, came) = (self.clone(), Instant::now());
        let connecting = tokio::spawn(async move { here.connect_shared(number, came).await });
        let gone = |_| OpenError::timed_out(&self.endpoint, self.connector.limit);
        connecting.await.map_err(gone)?
    }

    async fn connect_shared(
        &self,
        number: usize,
        came: Instant,
    ) -> Result<Arc<Connection>, OpenError> {
        let shared = &self.shared[number];
        let mut last = shared.connecting.lock().await;
        if let Some(open) = shared.open() {
            return Ok(open);
        }
        // Callers that waited for this attempt share its error.
        if let Some((_, error)) = last.as_ref().filter(|(failed, _)| *failed >= came) {
            return Err(error.clone());
        }
        match self.connect().await {
            Ok(connection) => {
                *last = None;
                *shared.lock() = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                *last = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    async fn connect(&self) -> Result<Arc<Connection>, OpenError> {
        let connection = self.connector.connect(&self.endpoint).await?;
        let loading = timeout(self.connector.limit, connection.load());
        match loading.await {
            Ok(Ok(())) => Ok(Arc::new(connection)),
            Ok(Err(error)) => Err(OpenError::reported(&self.endpoint, &error)),
            Err(_) => Err(OpenError::timed_out(&self.endpoint, self.connector.limit)),
        }
    }
}

// === impl SharedConnection ===

impl SharedConnection {
    /// The connection, if it takes more calls. A closing one stays open while calls wait on it.
    fn open(&self) -> Option<Arc<Connection>> {
        let mut open = self.lock();
        open.take_if(|open| !open.is_open());
        open.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl ExclusiveConnections ===

impl ExclusiveConnections {
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

/// Calls a script, and waits for replicas if the answer depends on a record.
async fn confirmed(
    connection: &Connection,
    call: &Call<'_>,
    options: CallOptions,
) -> Result<Value, Failure> {
    let answer = connection.call(call, options).await?;
    if !depends_on_a_record(&answer) {
        return Ok(answer);
    }
    // The server's limit is shorter than ours, so that it can report how many replicas have it.
    let limit = options.deadline.saturating_duration_since(Instant::now()).mul_f64(0.8);
    match connection.wait(options.replicas, limit).await {
        Ok(have) if have >= options.replicas => Ok(answer),
        Ok(have) => Err(Failure::FewReplicas { have }),
        Err(error) => Err(Failure::Unconfirmed(error)),
    }
}

/// A number of this thread. A thread that keeps to one connection, and drives it, needs no wake-up of
/// another thread for a reply.
fn thread_number() -> usize {
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
