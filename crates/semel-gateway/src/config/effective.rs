//! The values in effect everywhere, and the configuration they make.

use std::iter;

use semel_http::{Preset, Routes};

#[cfg(feature = "redis")]
use super::StoreChoice;
use super::describe::describe;
use super::fault::Place;
use super::gather::Gathered;
use super::settings::{policy, tls, top};
use super::source::Source;
#[cfg(feature = "redis")]
use super::values::By;
use super::values::{Level, Values};
use super::{Config, Jwt, Limits, Tls, UpstreamTls};

/// The values in effect everywhere.
#[derive(Clone, Debug)]
pub(super) struct Effective {
    /// For all requests that no route matches, and all that is not of a policy.
    pub(super) general: Values,
    /// By what they match.
    pub(super) routes: Vec<(String, Values)>,
}

// === impl Effective ===

impl Effective {
    pub(super) fn new(gathered: &Gathered) -> Self {
        let general = Values::defaults().with(&gathered.general, Level::General);
        Self { general, routes: Vec::new() }
    }

    /// The values of each policy.
    pub(super) fn policies(&self) -> impl Iterator<Item = &Values> {
        iter::once(&self.general).chain(self.routes.iter().map(|(_, values)| values))
    }

    /// Where the preset for money was first chosen.
    pub(super) fn payments(&self) -> Option<Place> {
        self.policies()
            .filter(|values| values.get(&policy::PRESET) == Some(Preset::Payments))
            .find_map(|values| values.place(&policy::PRESET).cloned())
    }

    /// Money is not put on a Redis that may forget it, unless the configuration says so. Noted here, so that it is
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
        let values = &self.general;
        let client_tls = values.get(&tls::CERTIFICATE).zip(values.get(&tls::KEY));
        Some(Config {
            listen: values.get(&top::LISTEN),
            admin: values.get(&top::ADMIN),
            upstream: values.get(&top::UPSTREAM)?,
            forwarded: values.get(&top::FORWARDED),
            methods: values.get(&top::METHODS),
            store: values.get(&top::STORE),
            durability: values.get(&top::DURABILITY),
            require_durable: values.get(&top::REQUIRE_DURABLE).unwrap_or_default(),
            wait_replicas: values
                .place(&top::WAIT_REPLICAS)
                .map(|_| values.get(&top::WAIT_REPLICAS)),
            namespace: values.get(&top::NAMESPACE),
            log: values.get(&top::LOG),
            log_format: values.get(&top::LOG_FORMAT),
            workers: values.get(&top::WORKERS),
            tls: client_tls.map(|(certificate, key)| Tls { certificate, key }),
            upstream_tls: UpstreamTls {
                ca: values.get(&tls::CA),
                server_name: values.get(&tls::SERVER_NAME),
            },
            jwt: Jwt::of(values),
            limits: Limits::of(values),
            routes,
            description: describe(&self, source),
            effective: self,
        })
    }
}
