//! The values in effect everywhere, and the configuration they make.

use std::iter;

use semel_http::{Preset, Routes};

#[cfg(feature = "redis")]
use super::StoreChoice;
use super::describe::describe;
use super::fault::Place;
use super::gather::Gathered;
use super::settings::{policy, tls, top};
#[cfg(feature = "redis")]
use super::sheet::By;
use super::sheet::{Level, Sheet};
use super::source::Source;
use super::{Config, Jwt, Limits, Tls, UpstreamTls};

/// The values in effect everywhere.
#[derive(Clone, Debug)]
pub(super) struct Sheets {
    /// For all requests that no route matches, and all that is not of a policy.
    pub(super) general: Sheet,
    /// By what they match.
    pub(super) routes: Vec<(String, Sheet)>,
}

// === impl Sheets ===

impl Sheets {
    pub(super) fn new(gathered: &Gathered) -> Self {
        let general = Sheet::defaults().with(&gathered.general, Level::General);
        Self { general, routes: Vec::new() }
    }

    /// The sheet of each policy.
    pub(super) fn policies(&self) -> impl Iterator<Item = &Sheet> {
        iter::once(&self.general).chain(self.routes.iter().map(|(_, sheet)| sheet))
    }

    /// Where the preset for money was first chosen.
    pub(super) fn payments(&self) -> Option<Place> {
        self.policies()
            .filter(|sheet| sheet.get(&policy::PRESET) == Some(Preset::Payments))
            .find_map(|sheet| sheet.place(&policy::PRESET).cloned())
    }

    /// Money is not put on a Redis that may forget it, unless somebody says so. Noted here, so that it is
    /// shown with where it comes from, and a change of it is seen.
    #[cfg(feature = "redis")]
    pub(super) fn require_durable_for_payments(&mut self) {
        let general = &self.general;
        if let (None, StoreChoice::Redis(_)) =
            (general.get(&top::REQUIRE_DURABLE), general.get(&top::STORE))
            && let Some(place) = self.payments()
        {
            let by = By::Preset(Preset::Payments.as_str(), place);
            self.general.turn_on(&top::REQUIRE_DURABLE, by);
        }
    }

    /// The configuration, if all is there.
    pub(super) fn into_config(self, routes: Routes, source: Option<&Source<'_>>) -> Option<Config> {
        let sheet = &self.general;
        let client_tls = sheet.get(&tls::CERTIFICATE).zip(sheet.get(&tls::KEY));
        Some(Config {
            listen: sheet.get(&top::LISTEN),
            admin: sheet.get(&top::ADMIN),
            upstream: sheet.get(&top::UPSTREAM)?,
            forwarded: sheet.get(&top::FORWARDED),
            methods: sheet.get(&top::METHODS),
            store: sheet.get(&top::STORE),
            durability: sheet.get(&top::DURABILITY),
            require_durable: sheet.get(&top::REQUIRE_DURABLE).unwrap_or_default(),
            wait_replicas: sheet.place(&top::WAIT_REPLICAS).map(|_| sheet.get(&top::WAIT_REPLICAS)),
            namespace: sheet.get(&top::NAMESPACE),
            log: sheet.get(&top::LOG),
            log_format: sheet.get(&top::LOG_FORMAT),
            workers: sheet.get(&top::WORKERS),
            tls: client_tls.map(|(certificate, key)| Tls { certificate, key }),
            upstream_tls: UpstreamTls {
                ca: sheet.get(&tls::CA),
                server_name: sheet.get(&tls::SERVER_NAME),
            },
            jwt: Jwt::of(sheet),
            limits: Limits::of(sheet),
            routes,
            description: describe(&self, source),
            sheets: self,
        })
    }
}
