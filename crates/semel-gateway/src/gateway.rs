//! The gateway put together: store, engine, layer, proxy, threads, admin address.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use http::header::HeaderValue;
use semel_engine::{Engine, Limits as EngineLimits};
use semel_http::{Mode, Routes, ScopeSource, Semel, SemelLayer};
use semel_store::{Clock, Store};
use tokio::net::TcpListener;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;
use tower_layer::Layer as _;

use crate::admin;
use crate::config::Config;
use crate::error::StartError;
use crate::proxy::pool::Pool;
use crate::proxy::upstream::Upstream;
use crate::proxy::{self, Forwarded, Proxy};
use crate::server::{self, Patience, Shared, Terms, Workers, tls};
use crate::store::{self, Opened};

/// Any store.
type AnyStore = Arc<dyn Store>;

/// A gateway that serves.
pub struct Gateway {
    listen: SocketAddr,
    admin: Option<SocketAddr>,
    engine: Engine<AnyStore>,
    clock: Arc<dyn Clock>,
    current: Arc<Current>,
    workers: Arc<Workers>,
    draining: CancellationToken,
    closing: CancellationToken,
    config: Config,
}

/// How a gateway went down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "work that was cut off may have taken effect without its outcome being recorded"]
pub struct Farewell {
    /// Connections that were cut.
    pub connections: usize,
    /// Executions that had not ended.
    pub executions: usize,
}

/// What serves requests now; a reload replaces it.
pub(crate) struct Stack {
    pub(crate) service: Semel<AnyStore, Proxy>,
    pub(crate) routes: Routes,
    pub(crate) forwarded: Forwarded,
    pub(crate) needs_client_ip: bool,
    pub(crate) pool: Pool,
    pub(crate) terms: Terms,
}

/// The one stack that serves now. A request that has begun keeps the one it began with.
pub(crate) struct Current(RwLock<Arc<Stack>>);

// === impl Gateway ===

impl Gateway {
    /// Opens the store, binds the addresses and serves.
    ///
    /// The present runtime lets clients in, serves the admin address and drives the connections of a
    /// store on a server. It must live until the gateway is [down](Self::shutdown): requests are
    /// served on threads of their own, but not without it.
    pub async fn start(config: Config, metrics: admin::Metrics) -> Result<Self, StartError> {
        let listener = bind(config.listen)?;
        let admin_listener = match config.admin {
            Some(address) => Some(bind(address)?),
            None => None,
        };
        let Opened { store, clock } = store::open(&config).await?;
        let engine = Engine::with_limits(store, engine_limits(&config));
        let current = Arc::new(Current::new(Stack::new(&config, &engine, &clock, 0)?));
        let (draining, closing) = (CancellationToken::new(), CancellationToken::new());
        let shared =
            Shared { stack: current.clone(), draining: draining.clone(), closing: closing.clone() };
        let workers = Workers::start(config.worker_count(), &shared).map_err(StartError::Thread)?;
        let workers = Arc::new(workers);
        let gateway = Self {
            listen: listener.local_addr().map_err(StartError::Thread)?,
            admin: admin_listener.as_ref().and_then(|listener| listener.local_addr().ok()),
            engine,
            clock,
            current,
            workers,
            draining,
            closing,
            config,
        };
        gateway.serve(listener, admin_listener, metrics);
        Ok(gateway)
    }

    fn serve(&self, listener: TcpListener, admin: Option<TcpListener>, metrics: admin::Metrics) {
        let (workers, draining) = (self.workers.clone(), self.draining.clone());
        let max = self.config.limits.max_connections;
        tokio::spawn(async move { server::accept(listener, &workers, max, draining).await });
        if let Some(listener) = admin {
            let view = admin::View {
                engine: self.engine.clone(),
                workers: Arc::downgrade(&self.workers),
                draining: self.draining.clone(),
                metrics,
            };
            tokio::spawn(admin::serve(listener, view, self.closing.clone()));
        }
    }

    /// The address it serves on, with the port that was given if 0 was asked for.
    pub const fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// The admin address, unless it is off.
    pub const fn admin(&self) -> Option<SocketAddr> {
        self.admin
    }

    /// Serves by another configuration from now on. Requests that run are not disturbed.
    ///
    /// Returns the names of settings that differ but need a restart.
    pub fn reload(&mut self, config: Config) -> Result<Vec<&'static str>, StartError> {
        // Connections that are open were opened on other terms: another upstream, other roots.
        let pool_id = self.current.load().pool.id + 1;
        let stack = Stack::new(&config, &self.engine, &self.clock, pool_id)?;
        self.current.replace(stack);
        let fixed = self.config.needs_restart(&config);
        self.config = config;
        Ok(fixed)
    }

    /// Goes down: lets no one in, answers what runs, settles what was executed, for at most
    /// `shutdown_timeout`; then cuts what is left.
    pub async fn shutdown(self) -> Farewell {
        let limit = self.config.limits.shutdown_timeout;
        let deadline = Instant::now() + limit;
        self.draining.cancel();
        // Either way the numbers below tell.
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
        Farewell { connections, executions: report.left }
    }

    /// The threads are joined elsewhere: this one may be needed to wake them.
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

// === impl Stack ===

impl Stack {
    fn new(
        config: &Config,
        engine: &Engine<AnyStore>,
        clock: &Arc<dyn Clock>,
        pool_id: u64,
    ) -> Result<Self, StartError> {
        let limits = &config.limits;
        let pool = Pool {
            id: pool_id,
            max_idle: limits.pool_max_idle,
            idle_timeout: limits.pool_idle_timeout,
        };
        let fallback = config.routes.fallback().policy();
        let shared = proxy::Shared {
            upstream: upstream(config)?,
            pool,
            upstream_timeout: fallback.upstream_timeout,
            body_idle_timeout: limits.body_idle_timeout,
        };
        let proxy = Proxy { shared: Arc::new(shared) };
        let routes = config.routes.clone();
        let layer = SemelLayer::new(engine.clone(), routes.clone())
            .clock(clock.clone())
            .namespace(&config.namespace)
            .max_buffered(limits.max_buffered);
        Ok(Self {
            service: layer.layer(proxy),
            forwarded: config.forwarded,
            needs_client_ip: needs_client_ip(&routes),
            routes,
            pool,
            terms: terms(config)?,
        })
    }
}

// === impl Current ===

impl Current {
    fn new(stack: Stack) -> Self {
        Self(RwLock::new(Arc::new(stack)))
    }

    pub(crate) fn load(&self) -> Arc<Stack> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn replace(&self, stack: Stack) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(stack);
    }
}

fn terms(config: &Config) -> Result<Terms, StartError> {
    let limits = &config.limits;
    let tls = match &config.tls {
        Some(files) => Some(tls::acceptor(&files.certificate, &files.key)?),
        None => None,
    };
    Ok(Terms {
        patience: Patience {
            header: limits.header_timeout,
            idle: limits.idle_timeout,
            body: limits.body_idle_timeout,
        },
        max_header_bytes: limits.max_header_bytes,
        max_headers: limits.max_headers,
        tls,
    })
}

fn upstream(config: &Config) -> Result<Upstream, StartError> {
    let to = &config.upstream;
    let tls = if to.is_https() {
        let ca = config.upstream_tls.ca.as_deref();
        let name = config.upstream_tls.server_name.as_deref().unwrap_or(&to.host);
        let name =
            name.to_owned().try_into().map_err(|_| StartError::ServerName(name.to_owned()))?;
        Some((tls::connector(ca)?, name))
    } else {
        None
    };
    let authority = HeaderValue::try_from(to.authority())
        .map_err(|_| StartError::ServerName(to.authority()))?;
    Ok(Upstream {
        host: to.host.as_str().into(),
        port: to.port,
        authority,
        base: to.base_path.as_str().into(),
        tls,
        connect_timeout: config.limits.connect_timeout,
    })
}

fn needs_client_ip(routes: &Routes) -> bool {
    let asks = |source: &ScopeSource| *source == ScopeSource::ClientIp;
    routes.all().iter().any(|route| {
        let policy = route.policy();
        policy.mode != Mode::Off && policy.scope.iter().any(asks)
    })
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
