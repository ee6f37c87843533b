//! Instances of the service that share a database.

use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::Signal;
use semel_testserver::Postgres;

use crate::support::Service;

pub(crate) struct Fleet {
    instances: Vec<Instance>,
}

struct Instance {
    database: String,
    more: Vec<String>,
    service: Mutex<Option<Service>>,
    /// Where it listens, or did.
    address: Mutex<SocketAddr>,
}

// === impl Fleet ===

impl Fleet {
    /// One instance for each list of arguments.
    pub(crate) fn start(server: &Postgres, arguments: &[&[&str]]) -> Self {
        let instances = arguments.iter().enumerate().map(|(number, more)| {
            let database = format!("{}?application_name={}", server.url(), name(number));
            Instance::start(database, more)
        });
        Self { instances: instances.collect() }
    }

    pub(crate) fn len(&self) -> usize {
        self.instances.len()
    }

    pub(crate) fn address(&self, number: usize) -> SocketAddr {
        *lock(&self.instances[number].address)
    }

    /// `kill -9`, and a new process in its place.
    pub(crate) fn kill(&self, number: usize) {
        let instance = &self.instances[number];
        let mut service = lock(&instance.service);
        service.take().expect("a service").kill();
        let successor = instance.spawn();
        *lock(&instance.address) = successor.address;
        *service = Some(successor);
    }

    pub(crate) fn freeze(&self, number: usize) {
        self.signal(number, Signal::STOP);
    }

    pub(crate) fn thaw(&self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    fn signal(&self, number: usize, signal: Signal) {
        lock(&self.instances[number].service).as_ref().expect("a service").signal(signal);
    }
}

// === impl Instance ===

impl Instance {
    fn start(database: String, more: &[&str]) -> Self {
        let more: Vec<String> = more.iter().map(ToString::to_string).collect();
        let service = spawn(&database, &more);
        let address = Mutex::new(service.address);
        Self { database, more, service: Mutex::new(Some(service)), address }
    }

    fn spawn(&self) -> Service {
        spawn(&self.database, &self.more)
    }
}

fn spawn(database: &str, more: &[String]) -> Service {
    let more: Vec<&str> = more.iter().map(String::as_str).collect();
    Service::start(database, &more)
}

/// What the server knows an instance by.
pub(crate) fn name(number: usize) -> String {
    format!("transfers-{number}")
}

/// One test thread that failed is no reason for another to fail, too.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
