//! Servers with clocks that tests can set.

use std::sync::{Arc, Mutex};

use semel_redis::{Options, RedisStore};
use semel_testserver::{Clock, Redis, RedisCluster, RedisOptions};

/// The deployment of a store.
pub(crate) trait Machine: Send + Sync + Sized + 'static {
    fn start(options: &RedisOptions) -> Self;
    fn url(&self) -> String;
    /// The servers that have records.
    fn masters(&self) -> Vec<&Redis>;
    /// The machines that no test uses now.
    fn idle() -> &'static Mutex<Vec<Lent<Self>>>;
}

/// A machine and its clock.
pub(crate) struct Lent<M> {
    machine: M,
    clock: Arc<Clock>,
}

/// A store on a machine of its own with a stopped clock. The machine is used again by the next test.
pub(crate) struct Clocked<M: Machine> {
    pub(crate) store: RedisStore,
    lent: Option<Lent<M>>,
}

impl Machine for Redis {
    fn start(options: &RedisOptions) -> Self {
        options.clone().start().expect("a server")
    }

    fn url(&self) -> String {
        self.url()
    }

    fn masters(&self) -> Vec<&Redis> {
        vec![self]
    }

    fn idle() -> &'static Mutex<Vec<Lent<Self>>> {
        static IDLE: Mutex<Vec<Lent<Redis>>> = Mutex::new(Vec::new());
        &IDLE
    }
}

impl Machine for RedisCluster {
    fn start(options: &RedisOptions) -> Self {
        Self::start(3, 1, options).expect("a cluster")
    }

    fn url(&self) -> String {
        self.url()
    }

    fn masters(&self) -> Vec<&Redis> {
        self.masters().iter().collect()
    }

    fn idle() -> &'static Mutex<Vec<Lent<Self>>> {
        static IDLE: Mutex<Vec<Lent<RedisCluster>>> = Mutex::new(Vec::new());
        &IDLE
    }
}

// === impl Clocked ===

impl<M: Machine> Clocked<M> {
    pub(crate) async fn make() -> Self {
        let idle = M::idle().lock().expect("idle ones").pop();
        let lent = idle.unwrap_or_else(|| {
            let clock = Arc::new(Clock::new().expect("a clock"));
            // A jump of time must not look like a failure of the other servers.
            let options = Redis::options()
                .clock(clock.clone())
                .setting("cluster-node-timeout", "3600000")
                .setting("repl-timeout", "36000");
            Lent { machine: M::start(&options), clock }
        });
        for master in lent.machine.masters() {
            master.cli(&["FLUSHALL"]).expect("an empty server");
        }
        lent.clock.freeze().expect("a clock");
        Self { store: open(&lent.machine.url()).await, lent: Some(lent) }
    }

    pub(crate) async fn reopen(mut self) -> Self {
        let lent = self.lent.take().expect("a machine");
        drop(self);
        Self { store: open(&lent.machine.url()).await, lent: Some(lent) }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.lent.as_ref().expect("a machine").clock
    }
}

impl<M: Machine> Drop for Clocked<M> {
    fn drop(&mut self) {
        if let Some(lent) = self.lent.take() {
            M::idle().lock().expect("idle ones").push(lent);
        }
    }
}

async fn open(url: &str) -> RedisStore {
    Options::from_url(url).expect("an address").open().await.expect("a store")
}
