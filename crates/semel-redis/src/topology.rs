//! Which server has a record: one, the one that sentinels name, or one of a cluster.

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
use crate::error::{Failed, Failure, OpenError};
use crate::script::{Call, SCRIPTS};
use crate::server::{Server, Terms};
use crate::slot::Slot;
use crate::url::{Endpoint, Place};

use cluster::Map;
use fullness::Fullness;
use servers::Servers;

/// All servers of a store, and who has what.
#[derive(Debug)]
pub(crate) struct Topology {
    servers: Servers,
    known: RwLock<Arc<Known>>,
    /// Held by the one who asks anew; remembers when that was last.
    asking: tokio::sync::Mutex<Option<Instant>>,
    /// Told when another may have records.
    changes: watch::Sender<()>,
    fullness: Fullness,
}

/// Who has what, as far as we know.
#[derive(Debug)]
enum Known {
    /// One has everything.
    One(Arc<Server>),
    /// Each slot is somebody's.
    Cluster(Map),
}

/// How often a verb is sent, redirections not included.
const TRIES: u32 = 6;
/// Servers that send us from one to the other may need a moment to agree. Each time a little longer is
/// waited, up to the longest, for as long as the verb has time.
const REDIRECTED_PAUSE: Duration = Duration::from_millis(10);
const REDIRECTED_PAUSE_MAX: Duration = Duration::from_millis(100);
/// The servers are not asked who has what more often than this.
const ASK_PAUSE: Duration = Duration::from_millis(100);
/// How many keys are tried to find one of a server's.
const KEYS_TRIED: u32 = 100_000;

// === impl Topology ===

impl Topology {
    pub(crate) async fn open(options: Options) -> Result<Self, OpenError> {
        let servers = Servers::new(options);
        let known = RwLock::new(Arc::new(ask(&servers, &[]).await?));
        let changes = watch::Sender::new(());
        let (asking, fullness) = (tokio::sync::Mutex::default(), Fullness::default());
        Ok(Self { servers, known, asking, changes, fullness })
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

    /// Hears when a server may have records that had none before.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// A number for the server that has a key, if it fails by itself; zero stands for all.
    pub(crate) fn part(&self, key: impl FnOnce() -> Vec<u8>) -> usize {
        match &*self.known() {
            Known::One(_) => 0,
            Known::Cluster(map) => {
                map.server_of(Slot::of(&key())).map_or(0, |server| 1 + server.number())
            }
        }
    }

    /// Can all servers be written to, but for one that is only full, and waited for?
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), OpenError> {
        self.look(0).await.map_err(Failed::into_open_error)?;
        for server in self.masters().iter().filter(|_| self.options().wait_replicas > 0) {
            server.check_wait().await?;
        }
        Ok(())
    }

    /// Calls a script where its record is.
    ///
    /// A verb whose effect is unknown may be sent again, which all of them allow. So a connection that
    /// broke, or a server that was replaced, is not the caller's problem if there is another.
    pub(crate) async fn call(
        self: &Arc<Self>,
        call: &Call<'_>,
        replicas: u32,
    ) -> Result<Value, Failed> {
        let slot = Slot::of(call.key);
        let began = Instant::now();
        let terms =
            Terms { deadline: began + self.options().verb_timeout, replicas, asking: false };
        let server = match self.server_known(slot) {
            Some(server) => server,
            None => Box::pin(self.server_of(slot, terms.deadline)).await?,
        };
        let failure = match server.call(call, terms).await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        Box::pin(self.call_again(call, terms, (server, failure, began))).await
    }

    /// After a first failure.
    async fn call_again(
        self: &Arc<Self>,
        call: &Call<'_>,
        mut terms: Terms,
        (mut server, mut failure, mut began): (Arc<Server>, Failure, Instant),
    ) -> Result<Value, Failed> {
        let (slot, deadline) = (Slot::of(call.key), terms.deadline);
        let mut failed: Option<Failed> = None;
        let (mut tries, mut redirections) = (1, 0);
        loop {
            let redirected = self.redirected(&server, slot, &failure);
            terms.asking = redirected.as_ref().is_some_and(|(_, asking)| *asking);
            let next = if let Some((next, _)) = redirected {
                let pause = (REDIRECTED_PAUSE * redirections).min(REDIRECTED_PAUSE_MAX);
                redirections += 1;
                (Instant::now() + pause < deadline).then_some((next, pause))
            } else {
                tries += 1;
                let next = self.elsewhere(&server, slot, &failure, (began, deadline)).await;
                next.filter(|_| tries <= TRIES).map(|next| (next, Duration::ZERO))
            };
            // Once it may have taken effect, a later "no" does not say that it has not.
            if !failed.as_ref().is_some_and(Failed::maybe_applied) {
                failed = Some(Failed { failure, server: server.endpoint().to_string() });
            }
            let Some((next, pause)) = next else { break };
            if !pause.is_zero() {
                sleep(pause).await;
            }
            server = next;
            began = Instant::now();
            failure = match server.call(call, terms).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
        }
        Err(failed.unwrap_or_else(|| self.nobody()))
    }

    /// Asks every server that has records for its clock, as a claim would be asked for. Notes which are full.
    ///
    /// With a key that the server has: without one, it would answer also if it knew that the cluster is
    /// not whole.
    pub(crate) async fn look(self: &Arc<Self>, replicas: u32) -> Result<Vec<Value>, Failed> {
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

    /// A key that a server has, or would have. One that has few slots of a cluster is long looked for, so
    /// what was found is remembered for as long as it is right.
    fn key_at(&self, server: &Arc<Server>) -> Option<Arc<[u8]>> {
        let (known, prefix) = (self.known(), self.options().address.prefix.as_str());
        let is_fit = |key: &[u8]| {
            known.server_of(Slot::of(key)).is_some_and(|found| Arc::ptr_eq(&found, server))
        };
        let mut keys =
            (0..KEYS_TRIED).map(|number| format!("{prefix}health-{number}").into_bytes());
        server.remembered_key(is_fit, || keys.find(|key| is_fit(key)))
    }

    /// The server that another names for a key; is the key still on its way there?
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
        let asking = is_on_its_way(error);
        if !asking {
            self.note(slot, &next);
        }
        Some((next, asking))
    }

    /// After a failure: the server to try next, if another is in charge by now.
    async fn elsewhere(
        self: &Arc<Self>,
        server: &Arc<Server>,
        slot: Slot,
        failure: &Failure,
        (began, deadline): (Instant, Instant),
    ) -> Option<Arc<Server>> {
        if !failure.is_out_of_place() {
            return None;
        }
        let _ = timeout_at(deadline, self.ask_apart(began, Some(server))).await;
        let next = self.known().server_of(slot)?;
        (!Arc::ptr_eq(&next, server)).then_some(next)
    }

    /// Asks in a task of its own, to its end, also if nobody waits so long: the next verb needs to know.
    fn ask_apart(self: &Arc<Self>, failed: Instant, away: Option<&Arc<Server>>) -> JoinHandle<()> {
        let (here, away) = (self.clone(), away.map(|server| server.endpoint().clone()));
        tokio::spawn(async move { here.ask_again(failed, away.as_ref()).await })
    }

    /// Asks who has what, unless somebody else has since `failed`. The server that is away is asked last.
    async fn ask_again(&self, failed: Instant, away: Option<&Endpoint>) {
        let mut asked = self.asking.lock().await;
        if asked.is_some_and(|asked| asked >= failed || asked.elapsed() < ASK_PAUSE) {
            return;
        }
        let mut masters: Vec<Endpoint> =
            self.masters().iter().map(|server| server.endpoint().clone()).collect();
        // Not always the same one first: it may be cut off from the others, and not know it.
        masters.shuffle(&mut rand::rng());
        masters.sort_by_key(|endpoint| Some(endpoint) == away);
        match ask(&self.servers, &masters).await {
            Ok(known) => {
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.into();
                self.changes.send_replace(());
            }
            Err(error) => tracing::debug!(%error, "nobody says who has what"),
        }
        self.servers.keep(&self.masters());
        *asked = Some(Instant::now());
    }

    /// Notes who has a slot, as its former server said.
    fn note(&self, slot: Slot, server: &Arc<Server>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if let Known::Cluster(map) = &**known {
            *known = Arc::new(Known::Cluster(map.with(slot, server)));
            self.changes.send_replace(());
        }
    }

    /// The server that has a key, as far as we know.
    pub(crate) fn server_now(&self, key: &[u8]) -> Option<Arc<Server>> {
        self.known().server_of(Slot::of(key))
    }

    /// The server that has a slot. If nobody does, that may have changed.
    async fn server_of(
        self: &Arc<Self>,
        slot: Slot,
        deadline: Instant,
    ) -> Result<Arc<Server>, Failed> {
        if let Some(server) = self.known().server_of(slot) {
            return Ok(server);
        }
        let _ = timeout_at(deadline, self.ask_apart(Instant::now(), None)).await;
        self.known().server_of(slot).ok_or_else(|| self.nobody())
    }

    fn nobody(&self) -> Failed {
        let (server, what) =
            (self.options().to_string(), "nobody has the key's hash slot".to_owned());
        let failure = Failure::Unasked(OpenError::Unreachable { server: server.clone(), what });
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

/// Asks who has what: those who knew last, and then those of the address.
async fn ask(servers: &Servers, masters: &[Endpoint]) -> Result<Known, OpenError> {
    let options = servers.options();
    Ok(match &options.address.place {
        Place::One(endpoint) => Known::One(servers.get(endpoint)),
        Place::Sentinel { sentinels, name } => {
            Known::One(servers.get(&sentinel::master(options, sentinels, name).await?))
        }
        Place::Cluster { seeds } => {
            Known::Cluster(cluster::ask(servers, masters.iter().chain(seeds)).await?)
        }
    })
}

/// Is the key being handed over, and perhaps there already?
fn is_on_its_way(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::Ask)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(port: u16) -> Endpoint {
        Endpoint::Tcp { host: "h".to_owned(), port }
    }

    /// Two servers, the second of which has one slot.
    fn cluster() -> Topology {
        let servers = Servers::new(Options::from_url("redis+cluster://h:1").expect("an address"));
        let (first, second) = (servers.get(&endpoint(1)), servers.get(&endpoint(2)));
        let mut map = Map::of_one(&first);
        map = map.with(Slot::of(b"semel:health-77"), &second);
        Topology {
            servers,
            known: RwLock::new(Arc::new(Known::Cluster(map))),
            asking: tokio::sync::Mutex::default(),
            changes: watch::Sender::new(()),
            fullness: Fullness::default(),
        }
    }

    /// The story: up to 100,000 keys were tried for each look at the health of a server with few slots.
    #[test]
    fn a_servers_key_is_looked_for_once() {
        let topology = cluster();
        let [first, second] = [1, 2].map(|port| topology.servers.get(&endpoint(port)));
        let key = topology.key_at(&second).expect("a key");
        assert_eq!(Slot::of(&key), Slot::of(b"semel:health-77"));
        let again = topology.key_at(&second).expect("a key");
        assert!(Arc::ptr_eq(&key, &again), "it was looked for again");
        // Its slot moves away: then the key is another's.
        topology.note(Slot::of(&key), &first);
        topology.note(Slot::of(b"semel:health-5"), &second);
        let moved = topology.key_at(&second).expect("a key");
        assert_eq!(Slot::of(&moved), Slot::of(b"semel:health-5"));
    }

    #[test]
    fn each_server_of_a_cluster_is_a_part() {
        let topology = cluster();
        assert_eq!(topology.part(|| b"semel:health-77".to_vec()), 2);
        assert_eq!(topology.part(|| b"semel:health-5".to_vec()), 1);
        // One that is forgotten leaves its number to the next.
        topology.servers.keep(&[topology.servers.get(&endpoint(2))]);
        assert_eq!(topology.servers.get(&endpoint(9)).number(), 0);
    }
}
