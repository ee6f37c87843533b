//! What was set, from the file, the environment and the command line.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Flags;
use super::fault::{Found, Place};
use super::raw::Raw;
use super::settings::{self, Kind, Section, Setting};
use super::unknown;
use super::value::{self, Value};

/// A setting that was set.
#[derive(Clone, Debug)]
pub(super) struct Given {
    /// `None` if it was refused.
    pub(super) value: Option<Value>,
    /// As it was written, without secrets.
    pub(super) shown: String,
    pub(super) place: Place,
}

/// Settings by name.
pub(super) type Layer = BTreeMap<&'static str, Given>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    sections: BTreeMap<Section, Layer>,
    pub(super) routes: Vec<RouteLayer>,
}

/// Those of a `[[route]]`.
#[derive(Debug)]
pub(super) struct RouteLayer {
    /// Its heading.
    pub(super) place: Place,
    pub(super) settings: Layer,
}

// === impl Gathered ===

impl Gathered {
    pub(super) fn section(&self, section: Section) -> Option<&Layer> {
        self.sections.get(&section)
    }

    /// Was it set, be it wrongly?
    pub(super) fn has(&self, section: Section, name: &str) -> bool {
        self.section(section).is_some_and(|layer| layer.contains_key(name))
    }

    /// Adds what the file says.
    pub(super) fn add_file(&mut self, table: &DeTable<'_>, found: &mut Found) {
        for (key, value) in table {
            let section =
                Section::TABLES.into_iter().find(|section| section.table() == key.get_ref());
            match section {
                Some(Section::Route) => self.add_routes(value, found),
                Some(section) => self.add_table(section, value, found),
                None => {
                    let layer = self.sections.entry(Section::Top).or_default();
                    add_setting(layer, Section::Top, key, value, found);
                }
            }
        }
    }

    /// Adds what environment variables say. They win over the file.
    pub(super) fn add_variable(&mut self, name: &str, text: &str, found: &mut Found) {
        if !name.starts_with("SEMEL_") {
            return;
        }
        let place = Place::Variable(name.to_owned());
        let is_it = |setting: &&Setting| setting.variable().as_deref() == Some(name);
        match settings::all().find(is_it) {
            Some(setting) => self.add_text(setting, text, place, found),
            None => found.add(place, "it names no setting", unknown::variable_cure(name)),
        }
    }

    /// Adds what flags say. They win over all.
    pub(super) fn add_flags(&mut self, flags: &Flags, found: &mut Found) {
        let flags = [
            ("--listen", "listen", &flags.listen),
            ("--admin", "admin", &flags.admin),
            ("--upstream", "upstream", &flags.upstream),
            ("--store", "store", &flags.store),
        ];
        for (flag, name, text) in flags {
            if let (Some(setting), Some(text)) = (settings::find(Section::Top, name), text) {
                self.add_text(setting, text, Place::Flag(flag), found);
            }
        }
    }

    fn add_text(&mut self, setting: &'static Setting, text: &str, place: Place, found: &mut Found) {
        let raw = Raw::from_text(text, setting.kind, place);
        let layer = self.sections.entry(setting.section).or_default();
        add_raw(layer, setting, raw, found);
    }

    fn add_table(&mut self, section: Section, value: &Spanned<DeValue<'_>>, found: &mut Found) {
        let layer = self.sections.entry(section).or_default();
        let (name, place) = (section.table(), Place::of(&value.span()));
        match value.get_ref() {
            DeValue::Table(table) => add_table(layer, section, table, found),
            DeValue::Array(tables) if tables.iter().any(|table| table.get_ref().is_table()) => {
                let cure = format!("write [{name}] once, with one pair of brackets");
                found.add(place, format!("`{name}` is a list of tables"), cure);
                for table in tables.iter().filter_map(|table| table.get_ref().as_table()) {
                    add_table(layer, section, table, found);
                }
            }
            _ => {
                let told = Raw::from_toml(value).told();
                let cure = format!("write [{name}] on a line of its own, and its settings below");
                found.add(place, format!("`{name}` is {told}, which is not a table"), cure);
            }
        }
    }

    fn add_routes(&mut self, value: &Spanned<DeValue<'_>>, found: &mut Found) {
        let cure = "write [[route]] on a line of its own, and its settings below";
        let place = Place::of(&value.span());
        match value.get_ref() {
            DeValue::Array(routes) => {
                for route in routes {
                    let (place, told) = (Place::of(&route.span()), Raw::from_toml(route).told());
                    match route.get_ref() {
                        DeValue::Table(table) => self.add_route(place, table, found),
                        _ => found.add(place, format!("{told} is not a route"), cure),
                    }
                }
            }
            DeValue::Table(table) => {
                let cure = "write [[route]], with two pairs of brackets";
                found.add(place.clone(), "`route` is a single table", cure);
                self.add_route(place, table, found);
            }
            _ => {
                let told = Raw::from_toml(value).told();
                found.add(place, format!("`route` is {told}, which is not a list of tables"), cure);
            }
        }
    }

    fn add_route(&mut self, place: Place, table: &DeTable<'_>, found: &mut Found) {
        let mut settings = Layer::new();
        add_table(&mut settings, Section::Route, table, found);
        self.routes.push(RouteLayer { place, settings });
    }
}

fn add_table(layer: &mut Layer, section: Section, table: &DeTable<'_>, found: &mut Found) {
    for (key, value) in table {
        add_setting(layer, section, key, value, found);
    }
}

fn add_setting(
    layer: &mut Layer,
    section: Section,
    key: &Spanned<std::borrow::Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    found: &mut Found,
) {
    let Some(setting) = settings::find(section, key.get_ref()) else {
        let (what, cure) = unknown::setting(section, key.get_ref());
        return found.add(Place::of(&key.span()), what, cure);
    };
    add_raw(layer, setting, Raw::from_toml(value), found);
}

fn add_raw(layer: &mut Layer, setting: &'static Setting, raw: Raw, found: &mut Found) {
    let value = value::read(setting, &raw, found);
    let shown = match &value {
        Some(Value::Store(store)) => format!("{:?}", store.shown()),
        _ => raw.hushed(setting.kind),
    };
    if setting.kind == Kind::Store {
        found.hide(&raw.place);
    }
    layer.insert(setting.name, Given { value, shown, place: raw.place });
}
