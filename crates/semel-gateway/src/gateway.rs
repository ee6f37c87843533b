//! The gateway put together: store, engine, layer, proxy, threads, admin address.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_engine::{Engine, Limits as EngineLimits};
use semel_http::{JwtUnverified, Mode, Preset, RoutePolicy, Routes, ScopeSource};
use semel_store::Clock;
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::admin;
use crate::config::{Config, StoreChoice};
use crate::descriptors::DescriptorBudget;
use crate::error::StartError;
use crate::limit::Limit;
use crate::pipeline::{CurrentPipeline, Pipeline};
use crate::proxy::permits::UpstreamPermits;
use crate::server::{self, Acceptor, Shared, Workers};
use crate::store::{self, Opened};
use crate::tokens::{AtFirst, Tokens};

/// A gateway that serves.
pub struct Gateway {
    listen: SocketAddr,
    admin: Option<SocketAddr>,
    engine: Engine,
    clock: Arc<dyn Clock>,
    pipeline: Arc<CurrentPipeline>,
    workers: Arc<Workers>,
    permits: Arc<UpstreamPermits>,
    draining: CancellationToken,
    closing: CancellationToken,
    /// The configuration in effect.
    config: Config,
    /// The store that was opened: a reload does not change it.
    store: StoreChoice,
}

/// What a shutdown could not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "work that was cut off may have taken effect without its outcome being recorded"]
pub struct ShutdownReport {
    /// Connections that were still open, and were closed.
    pub connections: usize,
    /// Executions that were still running.
    pub executions: usize,
}

// === impl Gateway ===

impl Gateway {
    /// Opens the store, binds the addresses and serves.
    ///
    /// The current runtime accepts connections, serves the admin address and drives the connections of a store on a
    /// server. It must live until [`shutdown`](Self::shutdown) has returned: requests are served on threads of their
    /// own, which need it.
    pub async fn start(config: Config, metrics: admin::Metrics) -> Result<Self, StartError> {
        Limit::start_counting();
        let budget = DescriptorBudget::now(&config.limits, config.worker_count());
        budget.log(&config.limits);
        let listener = bind(config.listen)?;
        let admin_listener = match config.admin {
            Some(address) => Some(bind(address)?),
            None => None,
        };
        let Opened { store, clock } = store::open(&config, budget.reserve.tables).await?;
        let engine = Engine::with_limits(store, engine_limits(&config));
        let permits = Arc::new(UpstreamPermits::new(budget.upstream));
        let tokens = match &config.jwt {
            Some(jwt) => Some(Arc::new(Tokens::open(jwt, AtFirst::Wait).await?)),
            None => None,
        };
        let pipeline = Pipeline::new(&config, &engine, &clock, &permits, 0, tokens)?;
        let pipeline = Arc::new(CurrentPipeline::new(pipeline));
        let (draining, closing) = (CancellationToken::new(), CancellationToken::new());
        let served = Shared {
            pipeline: pipeline.clone(),
            leftovers: Arc::default(),
            permits: permits.clone(),
            draining: draining.clone(),
            closing: closing.clone(),
        };
        let workers = Workers::start(config.worker_count(), &served).map_err(StartError::Thread)?;
        let workers = Arc::new(workers);
        let gateway = Self {
            listen: listener.local_addr().map_err(StartError::Thread)?,
            admin: admin_listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            engine,
            clock,
            pipeline,
            workers,
            permits,
            draining,
            closing,
            store: config.store.clone(),
            config,
        };
        log_shared_scopes(&gateway.config);
        gateway.serve(listener, admin_listener, budget, metrics);
        Ok(gateway)
    }

    fn serve(
        &self,
        listener: TcpListener,
        admin: Option<TcpListener>,
        budget: DescriptorBudget,
        metrics: admin::Metrics,
    ) {
        let (workers, draining) = (self.workers.clone(), self.draining.clone());
        let acceptor = Acceptor::new(budget.clients, budget.reserve.rejected);
        tokio::spawn(async move { acceptor.accept(listener, &workers, draining).await });
        if let Some(listener) = admin {
            let state = admin::AdminState {
                engine: self.engine.clone(),
                workers: Arc::downgrade(&self.workers),
                permits: self.permits.clone(),
                pipeline: self.pipeline.clone(),
                draining: self.draining.clone(),
                metrics,
            };
            tokio::spawn(admin::serve(listener, state, budget.reserve.admin, self.closing.clone()));
        }
    }

    /// The address that it listens on; with the port that the system chose if port 0 is configured.
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The admin address, if there is one.
    pub const fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Replaces the configuration. Requests in flight keep the one they began with.
    ///
    /// Returns the names of changed settings that need a restart.
    ///
    /// Fails, without any change, if routes with the preset `payments` would use a store in memory: the open store is
    /// kept until a restart, whatever `config` names.
    ///
    /// Waits for the keys of tokens, if their source or their rules have changed.
    pub async fn reload(&mut self, config: Config) -> Result<Vec<&'static str>, StartError> {
        if self.store == StoreChoice::Memory && has_payments(&config.routes) {
            return Err(StartError::VolatilePayments);
        }
        let before = self.pipeline.load();
        let tokens = match (&config.jwt, &before.tokens) {
            (Some(jwt), Some(tokens)) if *jwt == tokens.jwt => Some(tokens.clone()),
            (Some(jwt), _) => Some(Arc::new(Tokens::open(jwt, AtFirst::Refuse).await?)),
            (None, _) => None,
        };
        // Idle connections were opened with other settings: another upstream, other roots.
        let pool_id = before.pool.id + 1;
        drop(before);
        let pipeline =
            Pipeline::new(&config, &self.engine, &self.clock, &self.permits, pool_id, tokens)?;
        self.pipeline.replace(pipeline);
        log_shared_scopes(&config);
        let fixed = self.config.needs_restart(&config);
        self.config = config;
        Ok(fixed)
    }

    /// Drains: accepts no new connections, completes requests in flight and settles what was executed, for at most
    /// `shutdown_timeout`; then closes what is left.
    pub async fn shutdown(self) -> ShutdownReport {
        let limit = self.config.limits.shutdown_timeout;
        let deadline = Instant::now() + limit;
        self.draining.cancel();
        // The report below has what is left.
        let _ = timeout(limit, self.workers.drained()).await;
        let connections = self.workers.connections();
        let left = deadline.saturating_duration_since(Instant::now());
        let report = self.engine.shutdown(left.max(Duration::from_millis(10))).await;
        self.closing.cancel();
        if connections > 0 {
            // They end by themselves now.
            let _ = timeout(Duration::from_secs(1), self.workers.drained()).await;
        }
        self.stop_threads().await;
        ShutdownReport { connections, executions: report.left }
    }

    /// Joins the worker threads on a blocking thread: the current one may be needed to wake them.
    async fn stop_threads(self) {
        let mut workers = self.workers;
        loop {
            match Arc::try_unwrap(workers) {
                Ok(workers) => {
                    let _ = tokio::task::spawn_blocking(move || workers.stop()).await;
                    return;
                }
                // The task that accepted is about to let go of it.
                Err(shared) => {
                    workers = shared;
                    tokio::task::yield_now().await;
                }
            }
        }
    }
}

/// Money needs a store that remembers, also where the policy protects nothing yet, as at the start.
fn has_payments(routes: &Routes) -> bool {
    routes.all().iter().any(|route| route.policy().preset == Some(Preset::Payments))
}

/// Logs the routes on which one client can receive a replay of another's response.
fn log_shared_scopes(config: &Config) {
    let named = |is: fn(&RoutePolicy) -> bool| {
        let routes = config.routes.all().iter().filter(|route| is(route.policy()));
        routes.map(|route| route.name()).collect::<Vec<_>>().join(", ")
    };
    let anonymous = named(RoutePolicy::may_be_anonymous);
    if !anonymous.is_empty() {
        tracing::info!(
            routes = anonymous,
            "clients without a credential share one scope on these routes; on_missing_scope = \
             \"reject\" refuses them"
        );
    }
    let global =
        named(|policy| policy.mode != Mode::Off && policy.scope.contains(&ScopeSource::Global));
    if !global.is_empty() {
        tracing::info!(routes = global, "all clients share one scope on these routes");
    }
    let unverified = named(|policy| {
        policy.mode != Mode::Off
            && policy.reads_tokens()
            && policy.jwt_unverified == JwtUnverified::Warn
    });
    if config.jwt.is_none() && !unverified.is_empty() {
        tracing::warn!(
            routes = unverified,
            "tokens are not verified on these routes: a forged one names another client's scope; \
             [jwt] verifies them, and jwt_unverified = \"behind-a-verifier\" says that something \
             in front does"
        );
    }
}

fn engine_limits(config: &Config) -> EngineLimits {
    EngineLimits {
        executions_max: config.limits.max_executions,
        waiters_max: config.limits.max_waiters,
        ..EngineLimits::default()
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    server::listen(address).map_err(|source: io::Error| StartError::Bind { address, source })
}
