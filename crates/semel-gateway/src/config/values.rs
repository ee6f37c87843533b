//! The values in effect: layers of settings, the more specific over the more general.

use std::collections::BTreeMap;
use std::sync::Arc;

use semel_http::{Bundle, Preset, Profile};
use toml::de::DeValue;

use super::fault::{Found, Place};
use super::gather::{Given, Layer};
use super::raw::Raw;
use super::settings::{self, Id, Row, Section, Setting, policy};
use super::typed::FromValue;
use super::value::{self, Value};

/// The values in effect, for all requests or for those of a route. Routes share what they inherit.
#[derive(Clone, Debug)]
pub(super) struct Values(BTreeMap<Id, Arc<Entry>>);

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

// === impl Values ===

impl Values {
    /// All defaults.
    pub(super) fn defaults() -> Self {
        let entry = |row: &'static Row| {
            let (value, shown) = written(row, row.default?)?;
            Some((row.id(), Arc::new(Entry::new(value, shown, Origin::Default))))
        };
        Self(settings::all().filter_map(entry).collect())
    }

    /// The values with a layer over it: first its profile, then its preset, then its settings.
    pub(super) fn with(mut self, layer: &Layer, level: Level) -> Self {
        self.lay_bundle(layer.get(&policy::PROFILE.id()), Profile::bundles, level, By::Profile);
        self.lay_bundle(layer.get(&policy::PRESET.id()), Preset::bundles, level, By::Preset);
        for (id, given) in layer {
            let by = By::Itself(given.place.clone());
            match &given.value {
                Some(value) => self.set(*id, value.clone(), given.shown.clone(), level, by),
                None => self.doubt(*id),
            }
        }
        self
    }

    /// The value in effect.
    pub(super) fn get<T: FromValue>(&self, setting: &Setting<T>) -> T {
        T::from_value(self.value(setting))
            .expect("an option, or a setting whose default a test has read")
    }

    pub(super) fn entry(&self, row: &Row) -> Option<&Entry> {
        self.0.get(&row.id()).map(AsRef::as_ref)
    }

    pub(super) fn value(&self, row: &Row) -> Option<&Value> {
        self.entry(row).map(|entry| &entry.value)
    }

    /// Where it was set, unless it is a default.
    pub(super) fn place(&self, row: &Row) -> Option<&Place> {
        self.entry(row)?.origin.place()
    }

    /// Can something be said about these settings together?
    pub(super) fn is_sure_of(&self, rows: &[&Row]) -> bool {
        !rows.iter().filter_map(|row| self.entry(row)).any(|entry| entry.is_in_doubt)
    }

    /// Where to point when these settings do not go together: at the most specific one.
    pub(super) fn blame(&self, rows: &[&Row]) -> Option<Place> {
        let origins = rows.iter().rev().filter_map(|row| self.entry(row));
        let origin = origins.map(|entry| &entry.origin).max_by_key(|origin| origin.rank())?;
        origin.place().cloned()
    }

    /// A setting's value as it was written, without secrets.
    pub(super) fn shown(&self, row: &Row) -> String {
        self.entry(row).map_or_else(|| "not set".to_owned(), |entry| entry.shown.clone())
    }

    /// The preset that sets it, if one does.
    pub(super) fn preset_of(&self, row: &Row) -> Option<&'static str> {
        match self.entry(row)?.origin {
            Origin::At(_, By::Preset(word, _)) => Some(word),
            _ => None,
        }
    }

    fn set(&mut self, id: Id, value: Value, shown: String, level: Level, by: By) {
        self.0.insert(id, Arc::new(Entry::new(value, shown, Origin::At(level, by))));
    }

    /// Turns on an unset switch, because of another setting.
    #[cfg(feature = "redis")]
    pub(super) fn turn_on(&mut self, row: &Row, by: By) {
        self.set(row.id(), Value::Switch(true), "true".to_owned(), Level::General, by);
    }

    fn doubt(&mut self, id: Id) {
        if let Some(entry) = self.0.get_mut(&id) {
            Arc::make_mut(entry).is_in_doubt = true;
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
                .for_each(|(name, _)| self.doubt((Section::Policy, name)));
            return;
        };
        for bundle in bundles().iter().filter(|bundle| bundle.word == word) {
            for (name, text) in &bundle.settings {
                let row = settings::find(Section::Policy, name);
                if let Some((row, (value, shown))) =
                    row.and_then(|row| Some((row, written(row, text)?)))
                {
                    self.set(row.id(), value, shown, level, by(word, given.place.clone()));
                }
            }
        }
    }
}

/// A value of the table of settings. A test sees to it that all of them can be read.
fn written(row: &Row, text: &str) -> Option<(Value, String)> {
    let raw = Raw::from_toml(&DeValue::parse(text).ok()?);
    let value = value::read(row, &raw, &mut Found::default())?;
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
