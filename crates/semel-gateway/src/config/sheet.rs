//! The values in effect: layers of settings, the more specific over the more general.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use semel_http::jwt::TokenAlgorithm;
use semel_http::{Bundle, Preset, Profile, ScopeSource};
use toml::de::DeValue;

use super::fault::{Found, Place};
use super::gather::{Given, Layer};
use super::jwt::KeysFrom;
use super::raw::Raw;
use super::settings::{self, Section, Setting};
use super::value::{self, Value};
use super::{StoreChoice, Upstream};

/// The values in effect in one place: at the top, in a table, or for a route.
#[derive(Clone, Debug, Default)]
pub(super) struct Sheet(BTreeMap<&'static str, Entry>);

/// A value in effect.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) value: Value,
    /// As it was written, without secrets.
    pub(super) shown: String,
    pub(super) origin: Origin,
    /// It would have been another, had that not been refused. What depends on it is not judged.
    is_in_doubt: bool,
}

/// Where a value comes from. The later ones win.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Default,
    At(Level, By),
}

/// How specific a layer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// The only one of its kind, or `[policy]`.
    General,
    Route,
}

/// What in a layer sets a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum By {
    Profile(&'static str, Place),
    Preset(&'static str, Place),
    Itself(Place),
}

// === impl Sheet ===

impl Sheet {
    /// The defaults of a section.
    pub(super) fn defaults(section: Section) -> Self {
        let settings = settings::of(section).filter(|setting| setting.section == section);
        let entry = |setting: &'static Setting| {
            let (value, shown) = written(setting, setting.default?)?;
            Some((setting.name, Entry::new(value, shown, Origin::Default)))
        };
        Self(settings.filter_map(entry).collect())
    }

    /// The sheet with a layer over it: first its profile, then its preset, then its settings.
    pub(super) fn with(mut self, layer: Option<&Layer>, level: Level) -> Self {
        let Some(layer) = layer else { return self };
        self.lay_bundle(layer.get("profile"), Profile::bundles, level, By::Profile);
        self.lay_bundle(layer.get("preset"), Preset::bundles, level, By::Preset);
        for (name, given) in layer {
            let by = By::Itself(given.place.clone());
            match &given.value {
                Some(value) => self.set(name, value.clone(), given.shown.clone(), level, by),
                None => self.doubt(name),
            }
        }
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Entry> {
        self.0.get(name)
    }

    /// The word in effect, or nothing.
    pub(super) fn word(&self, name: &str) -> &'static str {
        match self.get(name) {
            Some(Entry { value: Value::Word(word), .. }) => word,
            _ => "",
        }
    }

    /// Is it on? `None` if nobody said.
    pub(super) fn switch(&self, name: &str) -> Option<bool> {
        match self.get(name) {
            Some(Entry { value: Value::Switch(on), .. }) => Some(*on),
            _ => None,
        }
    }

    /// The number in effect.
    pub(super) fn number(&self, name: &str) -> u64 {
        match self.get(name) {
            Some(Entry { value: Value::Number(number), .. }) => *number,
            _ => 0,
        }
    }

    /// The number in effect, of things in memory.
    pub(super) fn count(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// The time in effect.
    pub(super) fn time(&self, name: &str) -> Duration {
        match self.get(name) {
            Some(Entry { value: Value::Time(time), .. }) => *time,
            _ => Duration::ZERO,
        }
    }

    /// The text in effect.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name) {
            Some(Entry { value: Value::Text(text), .. }) => Some(text),
            _ => None,
        }
    }

    /// The address in effect, unless it is off.
    pub(super) fn address(&self, name: &str) -> Option<SocketAddr> {
        match self.get(name) {
            Some(Entry { value: Value::Address(address), .. }) => *address,
            _ => None,
        }
    }

    /// The upstream, if it is set.
    pub(super) fn upstream(&self) -> Option<&Upstream> {
        match self.get("upstream") {
            Some(Entry { value: Value::Upstream(upstream), .. }) => Some(upstream),
            _ => None,
        }
    }

    /// The methods in effect besides the registered ones.
    pub(super) fn methods(&self) -> &[Method] {
        match self.get("methods") {
            Some(Entry { value: Value::Methods(methods), .. }) => methods,
            _ => &[],
        }
    }

    /// The sources of identity in effect.
    pub(super) fn scope(&self) -> &[ScopeSource] {
        match self.get("scope") {
            Some(Entry { value: Value::ScopeSources(sources), .. }) => sources,
            _ => &[],
        }
    }

    /// Where the keys of tokens are.
    pub(super) fn keys(&self) -> Option<&KeysFrom> {
        match self.get("keys") {
            Some(Entry { value: Value::Keys(keys), .. }) => Some(keys),
            _ => None,
        }
    }

    /// What tokens may be signed by.
    pub(super) fn algorithms(&self) -> &[TokenAlgorithm] {
        match self.get("algorithms") {
            Some(Entry { value: Value::Algorithms(algorithms), .. }) => algorithms,
            _ => &[],
        }
    }

    /// The store.
    pub(super) fn store(&self) -> Option<&StoreChoice> {
        match self.get("store") {
            Some(Entry { value: Value::Store(store), .. }) => Some(store),
            _ => None,
        }
    }

    /// Where it was set, unless it is a default.
    pub(super) fn place(&self, name: &str) -> Option<&Place> {
        self.get(name)?.origin.place()
    }

    /// Its entries, in alphabetical order.
    pub(super) fn values(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, entry)| (*name, &entry.value))
    }

    /// Can something be said about these settings together?
    pub(super) fn is_sure_of(&self, names: &[&str]) -> bool {
        !names.iter().filter_map(|name| self.get(name)).any(|entry| entry.is_in_doubt)
    }

    /// Where to point when these settings do not go together: at the most specific one.
    pub(super) fn blame(&self, names: &[&str]) -> Option<Place> {
        let origins = names.iter().rev().filter_map(|name| self.get(name));
        let origin = origins.map(|entry| &entry.origin).max_by_key(|origin| origin.rank())?;
        origin.place().cloned()
    }

    /// A setting's value as it was written, without secrets.
    pub(super) fn shown(&self, name: &str) -> String {
        self.get(name).map_or_else(|| "not set".to_owned(), |entry| entry.shown.clone())
    }

    /// The preset that sets it, if one does.
    pub(super) fn preset_of(&self, name: &str) -> Option<&'static str> {
        match self.get(name)?.origin {
            Origin::At(_, By::Preset(word, _)) => Some(word),
            _ => None,
        }
    }

    fn set(&mut self, name: &'static str, value: Value, shown: String, level: Level, by: By) {
        self.0.insert(name, Entry::new(value, shown, Origin::At(level, by)));
    }

    /// Turns on what nobody set, because of something else.
    #[cfg(feature = "redis")]
    pub(super) fn turn_on(&mut self, name: &'static str, by: By) {
        self.set(name, Value::Switch(true), "true".to_owned(), Level::General, by);
    }

    fn doubt(&mut self, name: &str) {
        if let Some(entry) = self.0.get_mut(name) {
            entry.is_in_doubt = true;
        }
    }

    fn lay_bundle(
        &mut self,
        given: Option<&Given>,
        bundles: fn() -> Vec<Bundle>,
        level: Level,
        by: fn(&'static str, Place) -> By,
    ) {
        let Some(given) = given else { return };
        let Some(Value::Word(word)) = given.value else {
            // Any of them may have been meant.
            bundles()
                .iter()
                .flat_map(|bundle| &bundle.settings)
                .for_each(|(name, _)| self.doubt(name));
            return;
        };
        for bundle in bundles().iter().filter(|bundle| bundle.word == word) {
            for (name, text) in &bundle.settings {
                let setting = settings::find(Section::Policy, name);
                if let Some((value, shown)) = setting.and_then(|setting| written(setting, text)) {
                    self.set(name, value, shown, level, by(word, given.place.clone()));
                }
            }
        }
    }
}

/// A value of the table of settings. A test sees to it that all of them can be read.
fn written(setting: &Setting, text: &str) -> Option<(Value, String)> {
    let raw = Raw::from_toml(&DeValue::parse(text).ok()?);
    let value = value::read(setting, &raw, &mut Found::default())?;
    Some((value, raw.shown()))
}

// === impl Entry ===

impl Entry {
    const fn new(value: Value, shown: String, origin: Origin) -> Self {
        Self { value, shown, origin, is_in_doubt: false }
    }
}

// === impl Origin ===

impl Origin {
    fn place(&self) -> Option<&Place> {
        match self {
            Self::Default => None,
            Self::At(_, By::Profile(_, place) | By::Preset(_, place) | By::Itself(place)) => {
                Some(place)
            }
        }
    }

    /// How specific it is; the place does not count.
    fn rank(&self) -> (u8, u8) {
        match self {
            Self::Default => (0, 0),
            Self::At(level, by) => {
                let by = match by {
                    By::Profile(..) => 0,
                    By::Preset(..) => 1,
                    By::Itself(_) => 2,
                };
                (1 + *level as u8, by)
            }
        }
    }
}
