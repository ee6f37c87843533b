//! The compared subjects.

use crate::http::load::Load;
use crate::http::subjects::Layer;

/// One subject: an app alone, an app with a middleware, or an app behind a proxy.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    pub(crate) how: How,
    /// What a record that was acknowledged survives.
    pub(crate) durability: &'static str,
    /// The app without what is around it.
    pub(crate) alone: Option<&'static str>,
    /// The subjects of Semel that it is held against, the most alike first.
    pub(crate) semel: &'static [&'static str],
    pub(crate) is_semel: bool,
}

/// How it is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// The bench's own upstream, with nothing before it.
    Upstream,
    /// nginx as a plain proxy before such an upstream.
    Nginx(Workers),
    /// Semel's gateway before such an upstream.
    Gateway(Store),
    /// Semel's gateway on Redis before an app that has no middleware.
    Before(Layer),
    /// An app, bare or with a middleware.
    App(Layer),
}

/// How many processes serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    One,
    /// As many as the gateway has threads, and not one.
    PerCore,
}

/// Where a gateway keeps its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Store {
    Embedded,
    Redis,
    Postgres,
}

pub(crate) const UPSTREAM: &str = "upstream alone (hyper, one thread)";
pub(crate) const NGINX: &str = "nginx, plain proxy, a worker per core";
pub(crate) const NGINX_ONE: &str = "nginx, plain proxy, one worker";
pub(crate) const GATEWAY_EMBEDDED: &str = "Semel gateway, embedded store";
pub(crate) const GATEWAY_REDIS: &str = "Semel gateway, Redis";
pub(crate) const GATEWAY_POSTGRES: &str = "Semel gateway, PostgreSQL";
/// The most alike first: Redis syncs once a second, and nginx never.
const GATEWAYS: &[&str] = &[GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES];
const AXUM: &str = "axum alone";
const LAYER: &str = "axum + Semel layer, Redis";
const EXPRESS: &str = "Express alone";
const BEFORE_EXPRESS: &str = "Express behind Semel gateway, Redis";
const FASTAPI: &str = "FastAPI alone";
const BEFORE_FASTAPI: &str = "FastAPI behind Semel gateway, Redis";

const NOTHING: &str = "keeps no records";
const POWER: &str = "power cut";
const EVERYSEC: &str = "process; a power cut loses up to 1 s (everysec)";
const MEMORY: &str = "nothing (memory)";

/// All of them. Versions are those of `bench/peers`.
pub(crate) static ROSTER: [Entry; 17] = [
    entry(UPSTREAM, How::Upstream, NOTHING, None),
    Entry {
        semel: GATEWAYS,
        ..entry(NGINX, How::Nginx(Workers::PerCore), NOTHING, Some(UPSTREAM))
    },
    Entry {
        semel: GATEWAYS,
        ..entry(NGINX_ONE, How::Nginx(Workers::One), NOTHING, Some(UPSTREAM))
    },
    own(GATEWAY_EMBEDDED, How::Gateway(Store::Embedded), POWER, UPSTREAM),
    own(GATEWAY_REDIS, How::Gateway(Store::Redis), EVERYSEC, UPSTREAM),
    own(GATEWAY_POSTGRES, How::Gateway(Store::Postgres), POWER, UPSTREAM),
    entry(AXUM, How::App(Layer::Axum), NOTHING, None),
    own(LAYER, How::App(Layer::Semel), EVERYSEC, AXUM),
    Entry {
        semel: &[LAYER, GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES],
        ..entry("axum + idempotent 2.0.0, Redis", How::App(Layer::Idempotent), EVERYSEC, Some(AXUM))
    },
    Entry {
        semel: &[LAYER, GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES],
        ..entry(
            "axum + axum-idempotent 0.6.0, memory",
            How::App(Layer::AxumIdempotent),
            MEMORY,
            Some(AXUM),
        )
    },
    entry(EXPRESS, How::App(Layer::Express), NOTHING, None),
    Entry {
        semel: &[BEFORE_EXPRESS, GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES],
        ..entry(
            "Express + express-idempotency 1.0.6, Redis",
            How::App(Layer::ExpressIdempotency),
            EVERYSEC,
            Some(EXPRESS),
        )
    },
    Entry {
        semel: &[BEFORE_EXPRESS, GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES],
        ..entry(
            "Express + @node-idempotency/core 1.0.11, Redis",
            How::App(Layer::NodeIdempotency),
            EVERYSEC,
            Some(EXPRESS),
        )
    },
    own(BEFORE_EXPRESS, How::Before(Layer::Express), EVERYSEC, EXPRESS),
    entry(FASTAPI, How::App(Layer::FastApi), NOTHING, None),
    Entry {
        semel: &[BEFORE_FASTAPI, GATEWAY_REDIS, GATEWAY_EMBEDDED, GATEWAY_POSTGRES],
        ..entry(
            "FastAPI + asgi-idempotency-header 0.2.0, Redis",
            How::App(Layer::AsgiIdempotencyHeader),
            EVERYSEC,
            Some(FASTAPI),
        )
    },
    own(BEFORE_FASTAPI, How::Before(Layer::FastApi), EVERYSEC, FASTAPI),
];

const fn entry(
    name: &'static str,
    how: How,
    durability: &'static str,
    alone: Option<&'static str>,
) -> Entry {
    Entry { name, how, durability, alone, semel: &[], is_semel: false }
}

const fn own(name: &'static str, how: How, durability: &'static str, alone: &'static str) -> Entry {
    Entry { is_semel: true, ..entry(name, how, durability, Some(alone)) }
}

// === impl Workers ===

impl Workers {
    pub(crate) fn count(self) -> u8 {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        match self {
            Self::One => 1,
            Self::PerCore => u8::try_from(cores().max(2)).unwrap_or(u8::MAX),
        }
    }
}

// === impl Entry ===

impl Entry {
    /// True if it answers retries from records.
    pub(crate) fn protects(&self) -> bool {
        self.durability != NOTHING
    }

    /// What is sent to it. Replays do not reach an app behind a gateway, so which app it is makes no
    /// difference to them.
    pub(crate) fn loads(&self) -> &'static [Load] {
        match self.how {
            How::Before(_) => &[Load::First],
            _ if self.protects() => &[Load::First, Load::Replay, Load::Duplicates],
            _ => &[Load::First],
        }
    }

    /// A published middleware on Node.js or Python that keeps its records on Redis.
    pub(crate) fn is_goal(&self) -> bool {
        use Layer::{AsgiIdempotencyHeader, ExpressIdempotency, NodeIdempotency};
        matches!(self.how, How::App(ExpressIdempotency | NodeIdempotency | AsgiIdempotencyHeader))
    }

    /// A name for files.
    pub(crate) fn slug(&self) -> String {
        let letters = self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        letters.collect::<String>().to_ascii_lowercase()
    }
}

/// Those whose names contain one of these, or all.
pub(crate) fn chosen(only: &[String]) -> Vec<&'static Entry> {
    let is_chosen = |entry: &Entry| {
        let name = entry.name.to_lowercase();
        only.is_empty() || only.iter().any(|part| name.contains(&part.to_lowercase()))
    };
    ROSTER.iter().filter(|entry| is_chosen(entry)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_is_held_against_one_that_is_there() {
        let named = |name: &str| ROSTER.iter().find(|entry| entry.name == name);
        for entry in &ROSTER {
            if let Some(alone) = entry.alone {
                assert!(!named(alone).expect(alone).protects(), "{}", entry.name);
            }
            for name in entry.semel {
                assert!(named(name).expect(name).is_semel, "{}", entry.name);
            }
        }
    }

    #[test]
    fn names_choose() {
        let only = ["express".to_owned()];
        assert_eq!(chosen(&only).len(), 4);
        assert_eq!(chosen(&[]).len(), ROSTER.len());
        assert!(chosen(&only).iter().all(|entry| !entry.slug().contains(['/', ' ', '@'])));
    }
}
