//! Routes in use by a layer: what is observed and known about their requests.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use semel_core::{Fence, RecordId};
use tracing::Level;

use super::lines::RouteLines;
use super::{Decided, RouteMetrics, RouteObserver};
use crate::extract::ScopeMissing;
use crate::retry_after::Latency;
use crate::routes::{Route, Routes};

/// A route in use by a layer.
pub(crate) struct LiveRoute {
    pub(crate) route: Arc<Route>,
    observer: Arc<dyn RouteObserver>,
    pub(crate) lines: RouteLines,
    pub(crate) latency: Latency,
}

/// Makes the observer of a route.
type Observe = dyn Fn(&Route) -> Arc<dyn RouteObserver> + Send + Sync;

/// The routes of a layer.
#[derive(Clone)]
pub(crate) struct LiveRoutes {
    pub(crate) routes: Routes,
    observe: Arc<Observe>,
    /// As in [`Routes::all`]. Not before there is a service: by then the observer is known.
    live: OnceLock<Box<[Arc<LiveRoute>]>>,
}

// === impl LiveRoutes ===

impl LiveRoutes {
    pub(crate) fn new(routes: Routes) -> Self {
        let observe = Arc::new(|route: &Route| Arc::new(RouteMetrics::new(route)) as Arc<_>);
        Self { routes, observe, live: OnceLock::new() }
    }

    /// Replaces the observers.
    pub(crate) fn observe(
        &mut self,
        observe: impl Fn(&Route) -> Arc<dyn RouteObserver> + Send + Sync + 'static,
    ) {
        (self.observe, self.live) = (Arc::new(observe), OnceLock::new());
    }

    /// All routes, in use from the first call on.
    pub(crate) fn live(&self) -> &[Arc<LiveRoute>] {
        let live = |route: &Arc<Route>| Arc::new(LiveRoute::new(route, (self.observe)(route)));
        self.live.get_or_init(|| self.routes.all().iter().map(live).collect())
    }

    /// One of its [`routes`](Self::routes).
    pub(crate) fn of(&self, route: &Route) -> &Arc<LiveRoute> {
        &self.live()[route.index]
    }
}

impl fmt::Debug for LiveRoutes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.routes.fmt(f)
    }
}

// === impl LiveRoute ===

impl LiveRoute {
    fn new(route: &Arc<Route>, observer: Arc<dyn RouteObserver>) -> Self {
        let lines = RouteLines::new(route.name(), route.policy().mode);
        Self { route: route.clone(), observer, lines, latency: Latency::default() }
    }

    /// Reports a decision and writes its line to the log. `id` is `None` if the request did not get
    /// as far as a record.
    pub(crate) fn decided(&self, decided: Decided, id: Option<RecordId>, status: u16) {
        self.ended(decided, id, status, true);
    }

    /// The same for an attempt of which it is known whether its own work has begun.
    pub(crate) fn ended(
        &self,
        decided: Decided,
        id: Option<RecordId>,
        status: u16,
        has_begun: bool,
    ) {
        self.observer.decided(decided);
        let (route, mode, decision) = (self.name(), self.policy().mode.as_str(), decided.as_str());
        // Only a prefix of the id: never the key, the body or a credential (trap 24).
        let record = || id.map(|id| id.prefix()).unwrap_or_default();
        let write = |left_out: Option<u64>| {
            if decided.is_alarming() {
                let record = record();
                tracing::warn!(route, record, decision, mode, status, left_out, "attempt");
            } else if tracing::enabled!(Level::INFO) {
                let record = record();
                tracing::info!(route, record, decision, mode, status, left_out, "attempt");
            }
        };
        if has_begun && decided.ends_execution() {
            write(None);
        } else {
            self.lines.of(decided, write);
        }
    }

    /// Reports how long an execution and everything around it took.
    pub(crate) fn timed(&self, execution: Option<Duration>, total: Duration) {
        self.observer.timed(execution, total.saturating_sub(execution.unwrap_or_default()));
    }

    /// Reports and logs an unknown outcome whose key is released: the work may take effect twice.
    pub(super) fn unknown_released(&self, id: RecordId, fence: Fence) {
        self.observer.unknown_released();
        let (route, record, fence) = (self.name(), id.prefix(), fence.get());
        self.lines.unknown_released.line(|left_out| {
            tracing::warn!(
                route,
                record,
                fence,
                left_out,
                "the outcome is unknown and the key is released: a retry may execute the work again"
            );
        });
    }

    /// Reports a token that was refused.
    pub(crate) fn scope_missing(&self, missing: &ScopeMissing) {
        if let ScopeMissing::Token(refused) = missing {
            self.observer.token_refused(refused);
        }
    }
}

impl Deref for LiveRoute {
    type Target = Route;

    fn deref(&self) -> &Route {
        &self.route
    }
}
