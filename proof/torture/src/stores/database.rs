//! One PostgreSQL server.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use anyhow::{bail, ensure};
use semel_testserver::Postgres;

use super::Link;
use super::server::jump;
use crate::nemesis::Kind;
use crate::rng::Rng;
use crate::stop;

pub(super) struct Database {
    server: Postgres,
    ahead_ms: AtomicI64,
}

// === impl Database ===

impl Database {
    /// With the tables that `semel migrate` makes.
    pub(super) fn start(program: &Path) -> anyhow::Result<Self> {
        // Gateways that were killed or frozen leave connections behind for a while.
        let server = Postgres::options().setting("max_connections", "400").start()?;
        let migrated = Command::new(program)
            .arg("migrate")
            .env("SEMEL_STORE", server.url())
            .current_dir(server.directory())
            .output()?;
        let said = String::from_utf8_lossy(&migrated.stderr);
        ensure!(migrated.status.success(), "semel migrate failed: {said}");
        Ok(Self { server, ahead_ms: AtomicI64::new(0) })
    }

    pub(super) fn address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], self.server.port()))
    }

    /// Its address by this way.
    pub(super) fn url_by(&self, link: &Link) -> String {
        let (own, other) = (self.address().to_string(), link.proxy.address().to_string());
        self.server.url().replace(&own, &other)
    }

    pub(super) fn version(&self) -> String {
        let version = self.server.psql("show server_version").unwrap_or_default();
        format!("PostgreSQL {}", version.split(' ').next().unwrap_or("?"))
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
                if rng.percent(50) {
                    self.server.stop_fast()?;
                } else {
                    self.server.stop_immediately()?;
                }
                self.server.start_again()?;
            }
            Kind::StoreOutage => match rng.below(3) {
                0 => return self.strike(Kind::StoreKill, lasts, rng),
                1 => return self.strike(Kind::StorePause, lasts, rng),
                _ => {
                    self.server.stop_fast()?;
                    stop::sleep(lasts);
                    self.server.start_again()?;
                }
            },
            Kind::ClockForward | Kind::ClockBack => self.shift(jump(kind, rng))?,
            other => bail!("{other} cannot be done to PostgreSQL"),
        }
        Ok(())
    }

    /// Moves the clock by which the store's functions go.
    fn shift(&self, by: i64) -> anyhow::Result<()> {
        let ahead = self.ahead_ms.fetch_add(by, Ordering::Relaxed) + by;
        self.server.psql(&format!(
            "CREATE OR REPLACE FUNCTION semel.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS
             'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint + ({ahead})'"
        ))?;
        Ok(())
    }
}
