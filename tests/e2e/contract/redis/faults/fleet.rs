//! Three gateways, each of which may be dead, frozen or starting.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, RwLock};

use rustix::process::Signal;

use super::LEASE;
use crate::support::{Gateway, Setup, Upstream};

pub(super) struct Fleet {
    gateways: Vec<Mutex<Option<Gateway>>>,
    addresses: RwLock<Vec<SocketAddr>>,
}

const COUNT: usize = 3;

// === impl Fleet ===

impl Fleet {
    pub(super) fn start(upstream: &Upstream, store: &str) -> Self {
        let lease = format!("lease = \"{}ms\"", LEASE.as_millis());
        let gateways: Vec<Gateway> = (0..COUNT)
            .map(|_| {
                Setup::before(upstream)
                    .on(store)
                    .policy(&format!("{lease}\nupstream_timeout = \"20s\"\nttl = \"1h\""))
                    // So that the store is asked.
                    .limits("cache_bytes = 0")
                    .route("POST /hold", "on_abandoned = \"hold\"\non_unknown = \"hold\"")
                    .route("POST /reexecute", "on_abandoned = \"reexecute\"")
                    .start()
            })
            .collect();
        let addresses = gateways.iter().map(Gateway::listen).collect();
        let gateways = gateways.into_iter().map(|gateway| Mutex::new(Some(gateway))).collect();
        Self { gateways, addresses: RwLock::new(addresses) }
    }

    pub(super) fn len(&self) -> usize {
        self.gateways.len()
    }

    pub(super) fn address(&self, number: usize) -> SocketAddr {
        self.addresses.read().expect("addresses")[number % COUNT]
    }

    /// `kill -9`, and a start somewhere else.
    pub(super) fn kill(&self, number: usize) {
        let mut gateway = self.gateway(number);
        let setup = gateway.take().expect("a gateway").kill();
        let started = setup.start();
        self.addresses.write().expect("addresses")[number] = started.listen();
        *gateway = Some(started);
    }

    pub(super) fn pause(&self, number: usize) {
        self.signal(number, Signal::STOP);
    }

    pub(super) fn resume(&self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    fn signal(&self, number: usize, signal: Signal) {
        self.gateway(number).as_ref().expect("a gateway").signal(signal);
    }

    fn gateway(&self, number: usize) -> MutexGuard<'_, Option<Gateway>> {
        self.gateways[number].lock().expect("a gateway")
    }
}
