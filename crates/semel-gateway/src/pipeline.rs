//! The layer of `semel_http` around the proxy, as configured; a reload replaces it in one step.

mod methods;

pub(crate) use methods::Methods;

use std::sync::{Arc, PoisonError, RwLock};

use http::header::HeaderValue;
use semel_engine::Engine;
use semel_http::{Mode, Routes, ScopeSource, Semel, SemelLayer};
use semel_store::Clock;
use tower_layer::Layer as _;

use crate::client::{ClientTimeouts, ConnectionSettings, LoadLimits};
use crate::config::{Config, Limits};
use crate::error::StartError;
use crate::forwarded::Forwarded;
use crate::proxy::permits::UpstreamPermits;
use crate::proxy::pool::Pool;
use crate::proxy::upstream::Upstream;
use crate::proxy::{self, Proxy};
use crate::tls;
use crate::tokens::Tokens;

/// How many times what one connection may have in work the ended connections of one address may leave behind. Behind a
/// load balancer that is one address: with the default of 256, and an upstream that takes a second, 512 of its clients
/// may hang up each second before its new connections are refused.
const LEFT_BEHIND_TIMES: u32 = 2;

/// Everything that a reload replaces.
pub(crate) struct Pipeline {
    pub(crate) service: Semel<Proxy>,
    pub(crate) routes: Routes,
    pub(crate) forwarded: Forwarded,
    pub(crate) needs_client_ip: bool,
    pub(crate) methods: Methods,
    pub(crate) pool: Pool,
    pub(crate) settings: ConnectionSettings,
    /// Their refresh ends with the last request that may need them.
    pub(crate) tokens: Option<Arc<Tokens>>,
}

/// The pipeline that serves now. A request that has begun keeps the one it began with.
pub(crate) struct CurrentPipeline(RwLock<Arc<Pipeline>>);

// === impl Pipeline ===

impl Pipeline {
    pub(crate) fn new(
        config: &Config,
        engine: &Engine,
        clock: &Arc<dyn Clock>,
        permits: &Arc<UpstreamPermits>,
        pool_id: u64,
        tokens: Option<Arc<Tokens>>,
    ) -> Result<Self, StartError> {
        let limits = &config.limits;
        let pool = Pool {
            id: pool_id,
            max_idle: limits.pool_max_idle,
            idle_timeout: limits.pool_idle_timeout,
        };
        let fallback = config.routes.fallback().policy();
        let shared = proxy::Shared {
            upstream: Arc::new(upstream(config, permits.clone())?),
            pool,
            upstream_timeout: fallback.upstream_timeout,
            body_idle_timeout: limits.body_idle_timeout,
            lines: proxy::Lines::default(),
        };
        let proxy = Proxy::new(Arc::new(shared));
        let routes = config.routes.clone();
        let mut layer = SemelLayer::new(engine.clone(), routes.clone())
            .clock(clock.clone())
            .namespace(&config.namespace)
            .max_buffered(limits.max_buffered)
            .service_logs_start();
        if let Some(tokens) = &tokens {
            layer = layer.verifier(tokens.verifier());
        }
        Ok(Self {
            service: layer.layer(proxy),
            forwarded: config.forwarded,
            needs_client_ip: needs_client_ip(&routes),
            methods: Methods::new(&config.methods),
            routes,
            pool,
            settings: connection_settings(config)?,
            tokens,
        })
    }
}

// === impl CurrentPipeline ===

impl CurrentPipeline {
    pub(crate) fn new(pipeline: Pipeline) -> Self {
        Self(RwLock::new(Arc::new(pipeline)))
    }

    pub(crate) fn load(&self) -> Arc<Pipeline> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, pipeline: Pipeline) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(pipeline);
    }
}

fn connection_settings(config: &Config) -> Result<ConnectionSettings, StartError> {
    let limits = &config.limits;
    let tls = match &config.tls {
        Some(files) => Some(tls::acceptor(&files.certificate, &files.key)?),
        None => None,
    };
    Ok(ConnectionSettings {
        timeouts: ClientTimeouts {
            header: limits.header_timeout,
            idle: limits.idle_timeout,
            body: limits.body_idle_timeout,
        },
        max_header_bytes: limits.max_header_bytes,
        max_headers: limits.max_headers,
        load: load_limits(limits),
        tls,
    })
}

fn load_limits(limits: &Limits) -> LoadLimits {
    let in_work = u32::try_from(limits.max_executions_per_connection).unwrap_or(u32::MAX);
    LoadLimits {
        in_work,
        resets: u32::try_from(limits.max_resets_per_connection).unwrap_or(u32::MAX),
        left_behind: in_work.saturating_mul(LEFT_BEHIND_TIMES),
    }
}

fn upstream(config: &Config, permits: Arc<UpstreamPermits>) -> Result<Upstream, StartError> {
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
        permits,
    })
}

fn needs_client_ip(routes: &Routes) -> bool {
    let asks = |source: &ScopeSource| *source == ScopeSource::ClientIp;
    routes.all().iter().any(|route| {
        let policy = route.policy();
        policy.mode != Mode::Off && policy.scope.iter().any(asks)
    })
}
