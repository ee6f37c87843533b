//! The configuration of a gateway, and where it lives.

use std::net::SocketAddr;
use std::path::Path;

use super::{Ended, Gateway, SEMEL, Upstream};

/// How a gateway is to be started. Clones share the directory with the store.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    process: semel_testkit::Setup,
    upstream: String,
    store: String,
    top: String,
    policy: String,
    limits: String,
    routes: String,
}

// === impl Setup ===

impl Setup {
    /// The defaults, with a store of its own: embedded in a new directory, unless
    /// `SEMEL_CONTRACT_STORE` names another kind.
    pub(crate) fn before(upstream: &Upstream) -> Self {
        Self::before_address(upstream.address())
    }

    pub(crate) fn before_address(upstream: SocketAddr) -> Self {
        let process = semel_testkit::Setup::new(SEMEL);
        let home = process.directory();
        let store = match std::env::var("SEMEL_CONTRACT_STORE").as_deref() {
            Err(_) | Ok("embedded") => format!("embedded:{}", home.join("store").display()),
            #[cfg(feature = "postgres")]
            Ok("postgres") => super::Database::shared().url().to_owned(),
            #[cfg(feature = "redis")]
            Ok("redis") => <semel_testserver::Redis as super::Server>::shared_store(),
            Ok(other) => panic!("SEMEL_CONTRACT_STORE is {other:?}, which no test knows"),
        };
        Self {
            process,
            upstream: format!("http://{upstream}"),
            store,
            top: String::new(),
            policy: String::new(),
            limits: String::new(),
            routes: String::new(),
        }
    }

    /// For upstreams below a path.
    pub(crate) fn upstream_path(mut self, path: &str) -> Self {
        self.upstream.push_str(path);
        self
    }

    pub(crate) fn memory(mut self) -> Self {
        "memory:".clone_into(&mut self.store);
        self
    }

    pub(crate) fn store_in(mut self, directory: &Path) -> Self {
        self.store = format!("embedded:{}", directory.display());
        self
    }

    /// Instead of its own store, that of others.
    #[cfg(any(feature = "postgres", feature = "redis"))]
    pub(crate) fn on(mut self, url: &str) -> Self {
        url.clone_into(&mut self.store);
        self
    }

    /// For tests of no crash: an embedded store need not wait for the disk.
    pub(crate) fn unsynced(self) -> Self {
        if self.store.starts_with("embedded:") {
            self.top("durability = \"process\"")
        } else {
            self
        }
    }

    /// Lines above all sections.
    pub(crate) fn top(mut self, lines: &str) -> Self {
        push(&mut self.top, lines);
        self
    }

    /// Lines of `[policy]`.
    pub(crate) fn policy(mut self, lines: &str) -> Self {
        push(&mut self.policy, lines);
        self
    }

    /// Lines of `[limits]`.
    pub(crate) fn limits(mut self, lines: &str) -> Self {
        push(&mut self.limits, lines);
        self
    }

    /// A route.
    pub(crate) fn route(mut self, pattern: &str, lines: &str) -> Self {
        push(&mut self.routes, &format!("[[route]]\nmatch = \"{pattern}\"\n{lines}"));
        self
    }

    /// Starts a gateway and waits until it is ready.
    pub(crate) fn start(self) -> Gateway {
        self.configured().start()
    }

    /// The same without waiting.
    pub(crate) fn start_unready(self) -> Gateway {
        self.configured().start_unready()
    }

    /// Starts a gateway that cannot start.
    pub(crate) fn refused(self) -> Ended {
        self.configured().refused()
    }

    /// Writes the file.
    pub(crate) fn write(&self) {
        self.process.write(&self.text());
    }

    fn configured(&self) -> semel_testkit::Setup {
        self.process.clone().configured(&self.text())
    }

    fn text(&self) -> String {
        let Self { upstream, store, top, policy, limits, routes, .. } = self;
        format!(
            "upstream = \"{upstream}\"\nstore = \"{store}\"\n{top}\n\
             [policy]\n{policy}\n[limits]\n{limits}\n{routes}"
        )
    }
}

/// The kind of a gateway's store, as metrics call it.
pub(crate) fn store_kind(gateway: &Gateway) -> String {
    let text = gateway.setup().text();
    let (_, store) = text.split_once("store = \"").expect("a store");
    store.split(':').next().unwrap_or_default().to_owned()
}

fn push(text: &mut String, lines: &str) {
    text.push_str(lines);
    text.push('\n');
}
