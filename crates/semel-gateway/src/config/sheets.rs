//! The values in effect everywhere, and the configuration they make.

use std::path::PathBuf;

use semel_embedded::Durability;
use semel_http::Routes;

#[cfg(feature = "redis")]
use super::StoreChoice;
use super::describe::describe;
use super::fault::Place;
use super::gather::Gathered;
use super::settings::{Section, Setting};
#[cfg(feature = "redis")]
use super::sheet::By;
use super::sheet::{Level, Sheet};
use super::source::Source;
use super::value::Value;
use super::{Config, Jwt, Limits, LogFormat, Tls, UpstreamTls};
use crate::Forwarded;

/// The values in effect everywhere.
#[derive(Clone, Debug)]
pub(super) struct Sheets {
    pub(super) top: Sheet,
    pub(super) tls: Sheet,
    pub(super) upstream_tls: Sheet,
    pub(super) jwt: Sheet,
    pub(super) limits: Sheet,
    pub(super) policy: Sheet,
    /// By what they match.
    pub(super) routes: Vec<(String, Sheet)>,
}

/// The preset for money.
const PAYMENTS: &str = "payments";

// === impl Sheets ===

impl Sheets {
    pub(super) fn new(gathered: &Gathered) -> Self {
        let sheet =
            |section| Sheet::defaults(section).with(gathered.section(section), Level::General);
        Self {
            top: sheet(Section::Top),
            tls: sheet(Section::Tls),
            upstream_tls: sheet(Section::UpstreamTls),
            jwt: sheet(Section::Jwt),
            limits: sheet(Section::Limits),
            policy: sheet(Section::Policy),
            routes: Vec::new(),
        }
    }

    /// The values of a section, for all requests.
    pub(super) const fn of(&self, section: Section) -> &Sheet {
        match section {
            Section::Top => &self.top,
            Section::Tls => &self.tls,
            Section::UpstreamTls => &self.upstream_tls,
            Section::Jwt => &self.jwt,
            Section::Limits => &self.limits,
            Section::Policy | Section::Route => &self.policy,
        }
    }

    pub(super) fn value_of(&self, setting: &Setting) -> Option<&Value> {
        self.of(setting.section).get(setting.name).map(|entry| &entry.value)
    }

    /// Where the preset for money was first chosen.
    pub(super) fn payments(&self) -> Option<Place> {
        let sheets = [&self.policy].into_iter().chain(self.routes.iter().map(|(_, it)| it));
        sheets
            .filter(|sheet| sheet.word("preset") == PAYMENTS)
            .find_map(|sheet| sheet.place("preset").cloned())
    }

    /// Money is not put on a Redis that may forget it, unless somebody says so. Noted here, so that it is
    /// shown with where it comes from, and a change of it is seen.
    #[cfg(feature = "redis")]
    pub(super) fn require_durable_for_payments(&mut self) {
        if let (None, Some(StoreChoice::Redis(_))) =
            (self.top.get("require_durable"), self.top.store())
            && let Some(place) = self.payments()
        {
            self.top.turn_on("require_durable", By::Preset(PAYMENTS, place));
        }
    }

    /// The configuration, if all is there.
    pub(super) fn into_config(self, routes: Routes, source: Option<&Source<'_>>) -> Option<Config> {
        let (top, upstream_tls) = (&self.top, &self.upstream_tls);
        let path = |sheet: &Sheet, name| sheet.text(name).map(PathBuf::from);
        let (certificate, key) = (path(&self.tls, "certificate"), path(&self.tls, "key"));
        Some(Config {
            listen: top.address("listen")?,
            admin: top.address("admin"),
            upstream: top.upstream()?.clone(),
            forwarded: match top.word("forwarded") {
                "append" => Forwarded::Append,
                _ => Forwarded::Replace,
            },
            methods: top.methods().to_vec(),
            store: top.store()?.clone(),
            durability: match top.word("durability") {
                "process" => Durability::Process,
                _ => Durability::Power,
            },
            require_durable: top.switch("require_durable").unwrap_or_default(),
            wait_replicas: top
                .place("wait_replicas")
                .and_then(|_| u32::try_from(top.number("wait_replicas")).ok()),
            namespace: top.text("namespace")?.to_owned(),
            log: top.word("log").parse().ok()?,
            log_format: match top.word("log_format") {
                "json" => LogFormat::Json,
                _ => LogFormat::Text,
            },
            workers: top.count("workers"),
            tls: certificate.zip(key).map(|(certificate, key)| Tls { certificate, key }),
            upstream_tls: UpstreamTls {
                ca: path(upstream_tls, "ca"),
                server_name: upstream_tls.text("server_name").map(str::to_owned),
            },
            jwt: Jwt::of(&self.jwt),
            limits: limits(&self.limits),
            routes,
            description: describe(&self, source),
            sheets: self,
        })
    }
}

fn limits(sheet: &Sheet) -> Limits {
    Limits {
        max_connections: sheet.count("max_connections"),
        max_header_bytes: sheet.count("max_header_bytes"),
        max_headers: sheet.count("max_headers"),
        header_timeout: sheet.time("header_timeout"),
        idle_timeout: sheet.time("idle_timeout"),
        body_idle_timeout: sheet.time("body_idle_timeout"),
        max_executions_per_connection: sheet.count("max_executions_per_connection"),
        max_resets_per_connection: sheet.count("max_resets_per_connection"),
        max_upstream_connections: sheet.count("max_upstream_connections"),
        connect_timeout: sheet.time("connect_timeout"),
        pool_idle_timeout: sheet.time("pool_idle_timeout"),
        pool_max_idle: sheet.count("pool_max_idle"),
        shutdown_timeout: sheet.time("shutdown_timeout"),
        max_executions: sheet.count("max_executions"),
        max_waiters: sheet.count("max_waiters"),
        max_buffered: sheet.number("max_buffered"),
        cache_bytes: sheet.number("cache_bytes"),
    }
}
