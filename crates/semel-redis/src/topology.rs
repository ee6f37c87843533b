//! The server of each record: a single one, the one that sentinels name, or one of a cluster.

mod cluster;
mod fullness;
mod sentinel;
mod servers;

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use rand::seq::SliceRandom as _;
use redis::{ErrorKind, RedisError, ServerErrorKind, Value};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout_at};

use crate::Options;
use crate::connection::CallOptions;
use crate::error::{Failed, Failure, OpenError};
use crate::script::{Call, SCRIPTS};
use crate::server::Server;
use crate::slot::Slot;
use crate::tls::TlsClient;
use crate::url::{Endpoint, Place};

use cluster::Map;
use fullness::Fullness;
use servers::Servers;

/// All servers of a store, and their slots.
#[derive(Debug)]
pub(crate) struct Topology {
    servers: Servers,
    known: RwLock<Arc<Known>>,
    /// Held during a refresh; the time of the latest one.
    refreshing: tokio::sync::Mutex<Option<Instant>>,
    /// Notified when another server may have records.
    changes: watch::Sender<()>,
    fullness: Fullness,
}

/// The latest known assignment of slots.
#[derive(Debug)]
enum Known {
    /// One server has everything.
    One(Arc<Server>),
    /// Each slot has its server.
    Cluster(Map),
}

/// The maximum number of tries of a verb, redirections not included.
const TRIES: u32 = 6;
/// Servers that redirect to each other may need a moment to agree. Each pause is longer, up to the
/// maximum, until the deadline of the verb.
const REDIRECTED_PAUSE: Duration = Duration::from_millis(10);
const REDIRECTED_PAUSE_MAX: Duration = Duration::from_millis(100);
/// The minimum interval between two refreshes.
const REFRESH_INTERVAL_MIN: Duration = Duration::from_millis(100);
/// The maximum number of keys that are tried to find one of a given server.
const KEYS_TRIED: u32 = 100_000;

// === impl Topology ===

impl Topology {
    /// Finds the servers, and checks that they can be written to.
    pub(crate) async fn connect(mut options: Options) -> Result<Arc<Self>, OpenError> {
        let tls = options.address.tls.as_ref().map(TlsClient::new).transpose();
        options.tls = tls.map_err(|what| OpenError::Tls { what })?;
        let topology = Arc::new(Self::open(options).await?);
        topology.check().await?;
        Ok(topology)
    }

    async fn open(options: Options) -> Result<Self, OpenError> {
        let servers = Servers::new(options);
        let known = RwLock::new(Arc::new(fetch(&servers, &[]).await?));
        let changes = watch::Sender::new(());
        let (refreshing, fullness) = (tokio::sync::Mutex::default(), Fullness::default());
        Ok(Self { servers, known, refreshing, changes, fullness })
    }

    pub(crate) fn options(&self) -> &Options {
        self.servers.options()
    }

    /// All servers that have records.
    pub(crate) fn masters(&self) -> Vec<Arc<Server>> {
        match &*self.known() {
            Known::One(server) => vec![server.clone()],
            Known::Cluster(map) => map.masters(),
        }
    }

    /// Notifies when a server may have records that had none before.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// The number of the shard that has a key; zero if there is only one.
    pub(crate) fn part(&self, key: impl FnOnce() -> Vec<u8>) -> usize {
        match &*self.known() {
            Known::One(_) => 0,
            Known::Cluster(map) => {
                map.server_of(Slot::of(&key())).map_or(0, |server| 1 + server.number())
            }
        }
    }

    /// Checks that all servers can be written to (a full one counts), and that `WAIT` is allowed.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), OpenError> {
        self.probe(0).await.map_err(Failed::into_open_error)?;
        for server in self.masters().iter().filter(|_| self.options().wait_replicas > 0) {
            server.check_wait().await?;
        }
        Ok(())
    }

    /// Calls a script on the server of its record.
    ///
    /// A verb whose effect is unknown may be sent again, which all verbs allow. So a broken connection or
    /// a replaced server is hidden from the caller if there is another.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call<'_>,
        replicas: u32,
    ) -> Result<Value, Failed> {
        let slot = Slot::of(call.key);
        let began = Instant::now();
        let options =
            CallOptions { deadline: began + self.options().verb_timeout, replicas, asking: false };
        let server = match self.server_known(slot) {
            Some(server) => server,
            None => Box::pin(self.server_of(slot, options.deadline)).await?,
        };
        let failure = match server.call(call, options).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        Box::pin(self.call_again(call, options, (server, failure, began))).await
    }

    /// Retries and redirections after the first failure.
    async fn call_again(
        self: &Arc<Self>,
        call: &Call<'_>,
        mut options: CallOptions,
        (mut server, mut failure, mut began): (Arc<Server>, Failure, Instant),
    ) -> Result<Value, Failed> {
        let (slot, deadline) = (Slot::of(call.key), options.deadline);
        let mut failed: Option<Failed> = None;
        let (mut tries, mut redirections) = (1, 0);
        loop {
            let redirected = self.redirected(&server, slot, &failure);
            options.asking = redirected.as_ref().is_some_and(|(_, asking)| *asking);
            let next = if let Some((next, _)) = redirected {
                let pause = (REDIRECTED_PAUSE * redirections).min(REDIRECTED_PAUSE_MAX);
                redirections += 1;
                (Instant::now() + pause < deadline).then_some((next, pause))
            } else {
                tries += 1;
                let next = self.elsewhere(&server, slot, &failure, (began, deadline)).await;
                next.filter(|_| tries <= TRIES).map(|next| (next, Duration::ZERO))
            };
            // Once a try may have taken effect, a later refusal does not prove that it has not.
            if !failed.as_ref().is_some_and(Failed::maybe_applied) {
                failed = Some(Failed { failure, server: server.endpoint().to_string() });
            }
            let Some((next, pause)) = next else { break };
            if !pause.is_zero() {
                sleep(pause).await;
            }
            server = next;
            began = Instant::now();
            failure = match server.call(call, options).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
        }
        Err(failed.unwrap_or_else(|| self.unassigned()))
    }

    /// Reads the clock of every server that has records, with a script that a server refuses whenever it
    /// would refuse a claim. Notes which are full.
    ///
    /// It uses a key of the server: without a key, the server would reply even if it knew that the
    /// cluster is incomplete.
    pub(crate) async fn probe(self: &Arc<Self>, replicas: u32) -> Result<Vec<Value>, Failed> {
        let (mut answers, mut full) = (Vec::new(), BTreeSet::new());
        for server in self.masters() {
            let Some(key) = self.key_at(&server) else {
                continue;
            };
            let confirm = replicas > 0;
            let call = |script| Call { script, key: &key, confirm, args: &[] };
            let answer = match self.call(&call(&SCRIPTS.health), replicas).await {
                Err(failed) if failed.is_full() => {
                    full.insert(failed.server);
                    self.call(&call(&SCRIPTS.health_full), replicas).await
                }
                answer => answer,
            };
            answers.push(answer?);
        }
        self.fullness.found(full);
        Ok(answers)
    }

    pub(crate) const fn fullness(&self) -> &Fullness {
        &self.fullness
    }

    /// A key of this server. For a server with few slots the search takes long, so the result is
    /// remembered while it is right.
    fn key_at(&self, server: &Arc<Server>) -> Option<Arc<[u8]>> {
        let (known, prefix) = (self.known(), self.options().address.prefix.as_str());
        let is_fit = |key: &[u8]| {
            known.server_of(Slot::of(key)).is_some_and(|found| Arc::ptr_eq(&found, server))
        };
        let mut keys =
            (0..KEYS_TRIED).map(|number| format!("{prefix}health-{number}").into_bytes());
        server.remembered_key(is_fit, || keys.find(|key| is_fit(key)))
    }

    /// The server of a redirection, and whether the key is still migrating there.
    fn redirected(
        &self,
        server: &Server,
        slot: Slot,
        failure: &Failure,
    ) -> Option<(Arc<Server>, bool)> {
        let (Failure::Refused(error), Known::Cluster(_)) = (failure, &*self.known()) else {
            return None;
        };
        let (named, _) = error.redirect_node()?;
        let next = self.servers.get(&server.endpoint().named_by(named)?);
        let asking = is_migrating(error);
        if !asking {
            self.reassign(slot, &next);
        }
        Some((next, asking))
    }

    /// The server to try after a failure, if another is in charge by now.
    async fn elsewhere(
        self: &Arc<Self>,
        server: &Arc<Server>,
        slot: Slot,
        failure: &Failure,
        (began, deadline): (Instant, Instant),
    ) -> Option<Arc<Server>> {
        if !failure.may_have_moved() {
            return None;
        }
        let _ = timeout_at(deadline, self.spawn_refresh(began, Some(server))).await;
        let next = self.known().server_of(slot)?;
        (!Arc::ptr_eq(&next, server)).then_some(next)
    }

    /// Refreshes in a task of its own, which outlives its caller: the next verb needs the result.
    fn spawn_refresh(
        self: &Arc<Self>,
        failed: Instant,
        away: Option<&Arc<Server>>,
    ) -> JoinHandle<()> {
        let (here, away) = (self.clone(), away.map(|server| server.endpoint().clone()));
        tokio::spawn(async move { here.refresh(failed, away.as_ref()).await })
    }

    /// Refreshes the assignment, unless another task has since `failed`. The server that failed is asked
    /// last.
    async fn refresh(&self, failed: Instant, away: Option<&Endpoint>) {
        let mut refreshed = self.refreshing.lock().await;
        if refreshed.is_some_and(|refreshed| {
            refreshed >= failed || refreshed.elapsed() < REFRESH_INTERVAL_MIN
        }) {
            return;
        }
        let mut masters: Vec<Endpoint> =
            self.masters().iter().map(|server| server.endpoint().clone()).collect();
        // In random order: a server may be cut off from the others without knowing it.
        masters.shuffle(&mut rand::rng());
        masters.sort_by_key(|endpoint| Some(endpoint) == away);
        match fetch(&self.servers, &masters).await {
            Ok(known) => {
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.into();
                self.changes.send_replace(());
            }
            Err(error) => tracing::debug!(%error, "cannot refresh the topology"),
        }
        self.servers.keep(&self.masters());
        *refreshed = Some(Instant::now());
    }

    /// Assigns a slot to another server, as reported by its former server.
    fn reassign(&self, slot: Slot, server: &Arc<Server>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Known::Cluster(map) = &**known {
            *known = Arc::new(Known::Cluster(map.with(slot, server)));
            self.changes.send_replace(());
        }
    }

    /// The server that has a key, as far as is known.
    pub(crate) fn server_now(&self, key: &[u8]) -> Option<Arc<Server>> {
        self.known().server_of(Slot::of(key))
    }

    /// The server that has a slot. An unassigned slot causes a refresh.
    async fn server_of(
        self: &Arc<Self>,
        slot: Slot,
        deadline: Instant,
    ) -> Result<Arc<Server>, Failed> {
        if let Some(server) = self.known().server_of(slot) {
            return Ok(server);
        }
        let _ = timeout_at(deadline, self.spawn_refresh(Instant::now(), None)).await;
        self.known().server_of(slot).ok_or_else(|| self.unassigned())
    }

    fn unassigned(&self) -> Failed {
        let (server, what) =
            (self.options().to_string(), "the key's hash slot has no server".to_owned());
        let failure = Failure::NotSent(OpenError::Unreachable { server: server.clone(), what });
        Failed { failure, server }
    }

    fn server_known(&self, slot: Slot) -> Option<Arc<Server>> {
        self.known().server_of(slot)
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

// === impl Known ===

impl Known {
    fn server_of(&self, slot: Slot) -> Option<Arc<Server>> {
        match self {
            Self::One(server) => Some(server.clone()),
            Self::Cluster(map) => map.server_of(slot),
        }
    }
}

/// Queries the latest masters, and then the servers of the address.
async fn fetch(servers: &Servers, masters: &[Endpoint]) -> Result<Known, OpenError> {
    let options = servers.options();
    Ok(match &options.address.place {
        Place::One(endpoint) => Known::One(servers.get(endpoint)),
        Place::Sentinel { sentinels, name } => {
            Known::One(servers.get(&sentinel::master(options, sentinels, name).await?))
        }
        Place::Cluster { seeds } => {
            Known::Cluster(cluster::fetch(servers, masters.iter().chain(seeds)).await?)
        }
    })
}

/// Whether the key is migrating and may be on the other server already.
fn is_migrating(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> Endpoint {
        Endpoint::Tcp { host: "h".to_owned(), port }
    }

    /// Two servers; the second has a single slot.
    fn cluster() -> Topology {
        let servers = Servers::new(Options::from_url("redis+cluster://h:1").expect("an address"));
        let (first, second) = (servers.get(&endpoint(1)), servers.get(&endpoint(2)));
        let mut map = Map::of_one(&first);
        map = map.with(Slot::of(b"semel:health-77"), &second);
        Topology {
            servers,
            known: RwLock::new(Arc::new(Known::Cluster(map))),
            refreshing: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(()),
            fullness: Fullness::default(),
        }
    }

    /// Regression: up to 100,000 keys were tried for each health check of a server with few slots.
    #[test]
    fn a_servers_key_is_searched_for_once() {
        let topology = cluster();
        let [first, second] = [1, 2].map(|port| topology.servers.get(&endpoint(port)));
        let key = topology.key_at(&second).expect("a key");
        assert_eq!(Slot::of(&key), Slot::of(b"semel:health-77"));
        let again = topology.key_at(&second).expect("a key");
        assert!(Arc::ptr_eq(&key, &again), "it was looked for again");
        // Its slot moves away: then the key belongs to the other server.
        topology.reassign(Slot::of(&key), &first);
        topology.reassign(Slot::of(b"semel:health-5"), &second);
        let moved = topology.key_at(&second).expect("a key");
        assert_eq!(Slot::of(&moved), Slot::of(b"semel:health-5"));
    }

    #[test]
    fn each_server_of_a_cluster_is_a_part() {
        let topology = cluster();
        assert_eq!(topology.part(|| b"semel:health-77".to_vec()), 2);
        assert_eq!(topology.part(|| b"semel:health-5".to_vec()), 1);
        // The number of a forgotten server is used again.
        topology.servers.keep(&[topology.servers.get(&endpoint(2))]);
        assert_eq!(topology.servers.get(&endpoint(9)).number(), 0);
    }
}
