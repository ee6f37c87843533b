//! One Redis server.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::bail;
use semel_testserver::{Clock, Redis};

use crate::nemesis::Kind;
use crate::rng::Rng;
use crate::stop;

pub(super) struct RedisServer {
    server: Redis,
    clock: Arc<Clock>,
    ahead_ms: AtomicI64,
}

// === impl RedisServer ===

impl RedisServer {
    pub(super) fn start(is_durable: bool) -> anyhow::Result<Self> {
        let clock = Arc::new(Clock::new()?);
        let mut options = Redis::options().clock(clock.clone());
        if is_durable {
            options = options.setting("appendonly", "yes").setting("appendfsync", "always");
        }
        let server = options.start()?;
        Ok(Self { server, clock, ahead_ms: AtomicI64::new(0) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.server.port()))
    }

    pub(super) fn version(&self) -> String {
        version(&self.server)
    }

    pub(super) fn strike(&self, kind: Kind, lasts: Duration, rng: &mut Rng) -> anyhow::Result<()> {
        match kind {
            Kind::StoreKill => {
                self.server.kill()?;
                stop::sleep(lasts);
                self.server.start_again()?;
            }
            Kind::StorePause => {
                self.server.pause()?;
                stop::sleep(lasts);
                self.server.resume()?;
            }
            Kind::StoreRestart => {
                self.server.stop()?;
                self.server.start_again()?;
            }
            Kind::StoreOutage => {
                let outage = Outage::draw(rng);
                outage.begin(&self.server)?;
                stop::sleep(lasts);
                outage.end(&self.server)?;
            }
            Kind::StoreFull => {
                fill(&self.server)?;
                stop::sleep(lasts);
                make_room(&self.server)?;
            }
            Kind::ClockForward | Kind::ClockBack => {
                let by = jump(kind, rng);
                let ahead = self.ahead_ms.fetch_add(by, Ordering::Relaxed) + by;
                self.clock.shift(ahead)?;
            }
            other => bail!("{other} cannot be done to Redis"),
        }
        Ok(())
    }
}

/// How a server is away for long.
#[derive(Clone, Copy)]
pub(super) enum Outage {
    Killed,
    Frozen,
    Stopped,
}

// === impl Outage ===

impl Outage {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        *rng.pick(&[Self::Killed, Self::Frozen, Self::Stopped])
    }

    pub(super) fn begin(self, server: &Redis) -> anyhow::Result<()> {
        match self {
            Self::Killed => server.kill()?,
            Self::Frozen => server.pause()?,
            Self::Stopped => server.stop()?,
        }
        Ok(())
    }

    pub(super) fn end(self, server: &Redis) -> anyhow::Result<()> {
        match self {
            Self::Killed | Self::Stopped => server.start_again()?,
            Self::Frozen => server.resume()?,
        }
        Ok(())
    }
}

/// Leaves no memory for anything more, as if others had taken it.
pub(super) fn fill(server: &Redis) -> anyhow::Result<()> {
    server.cli(&["CONFIG", "SET", "maxmemory", "1"])?;
    Ok(())
}

/// Takes that back.
pub(super) fn make_room(server: &Redis) -> anyhow::Result<()> {
    server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
    Ok(())
}

/// The longest way back, in milliseconds: leases last as much longer.
pub(crate) const CLOCK_BACK_MAX: u64 = 6_000;

/// By how much the clock jumps. It stays there: a lease that was granted ahead of time would seem to last
/// for ever if the clock went back again.
pub(super) fn jump(kind: Kind, rng: &mut Rng) -> i64 {
    let by = match kind {
        Kind::ClockBack => return -i64::try_from(rng.between(500, CLOCK_BACK_MAX)).unwrap_or(0),
        _ => rng.between(1_000, 60_000),
    };
    i64::try_from(by).unwrap_or(0)
}

pub(super) fn version(server: &Redis) -> String {
    let info = server.cli(&["INFO", "server"]).unwrap_or_default();
    let found = info.lines().find_map(|line| line.strip_prefix("redis_version:"));
    format!("Redis {}", found.unwrap_or("?").trim())
}
