//! What was set, from the file, the environment and the command line.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Flags;
use super::fault::{Found, Place};
use super::raw::Raw;
use super::settings::{self, Id, Kind, Row, Section, top};
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

pub(super) type Layer = BTreeMap<Id, Given>;

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// For all requests.
    pub(super) general: Layer,
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
    /// Was it set for all requests, be it wrongly?
    pub(super) fn has(&self, row: &Row) -> bool {
        self.general.contains_key(&row.id())
    }

    /// Adds what the file says.
    pub(super) fn add_file(&mut self, table: &DeTable<'_>, found: &mut Found) {
        for (key, value) in table {
            let section =
                Section::TABLES.into_iter().find(|section| section.table() == key.get_ref());
            match section {
                Some(Section::Route) => self.add_routes(value, found),
                Some(section) => self.add_table(section, value, found),
                None => add_setting(&mut self.general, Section::Top, key, value, found),
            }
        }
    }

    /// Adds what environment variables say. They win over the file.
    pub(super) fn add_variable(&mut self, name: &str, text: &str, found: &mut Found) {
        if !name.starts_with("SEMEL_") {
            return;
        }
        let place = Place::Variable(name.to_owned());
        match settings::all().find(|row| row.variable().as_deref() == Some(name)) {
            Some(row) => self.add_text(row, text, place, found),
            None => found.add(place, "it names no setting", unknown::variable_cure(name)),
        }
    }

    /// Adds what flags say. They win over all.
    pub(super) fn add_flags(&mut self, flags: &Flags, found: &mut Found) {
        let flags: [(_, &Row, _); 4] = [
            ("--listen", &top::LISTEN, &flags.listen),
            ("--admin", &top::ADMIN, &flags.admin),
            ("--upstream", &top::UPSTREAM, &flags.upstream),
            ("--store", &top::STORE, &flags.store),
        ];
        for (flag, row, text) in flags {
            if let Some(text) = text {
                self.add_text(row, text, Place::Flag(flag), found);
            }
        }
    }

    fn add_text(&mut self, row: &Row, text: &str, place: Place, found: &mut Found) {
        add_raw(&mut self.general, row, Raw::from_text(text, row.kind, place), found);
    }

    fn add_table(&mut self, section: Section, value: &Spanned<DeValue<'_>>, found: &mut Found) {
        let layer = &mut self.general;
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
                let quoted = Raw::from_toml(value).quoted();
                let cure = format!("write [{name}] on a line of its own, and its settings below");
                found.add(place, format!("`{name}` is {quoted}, which is not a table"), cure);
            }
        }
    }

    fn add_routes(&mut self, value: &Spanned<DeValue<'_>>, found: &mut Found) {
        let cure = "write [[route]] on a line of its own, and its settings below";
        let place = Place::of(&value.span());
        match value.get_ref() {
            DeValue::Array(routes) => {
                for route in routes {
                    let (place, quoted) =
                        (Place::of(&route.span()), Raw::from_toml(route).quoted());
                    match route.get_ref() {
                        DeValue::Table(table) => self.add_route(place, table, found),
                        _ => found.add(place, format!("{quoted} is not a route"), cure),
                    }
                }
            }
            DeValue::Table(table) => {
                let cure = "write [[route]], with two pairs of brackets";
                found.add(place.clone(), "`route` is a single table", cure);
                self.add_route(place, table, found);
            }
            _ => {
                let quoted = Raw::from_toml(value).quoted();
                found.add(
                    place,
                    format!("`route` is {quoted}, which is not a list of tables"),
                    cure,
                );
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
    let Some(row) = settings::find(section, key.get_ref()) else {
        let (what, cure) = unknown::setting(section, key.get_ref());
        return found.add(Place::of(&key.span()), what, cure);
    };
    add_raw(layer, row, Raw::from_toml(value), found);
}

fn add_raw(layer: &mut Layer, row: &Row, raw: Raw, found: &mut Found) {
    let value = value::read(row, &raw, found);
    let shown = match &value {
        Some(Value::Store(store)) => format!("{:?}", store.shown()),
        _ => raw.redacted(row.kind),
    };
    if row.kind == Kind::Store {
        found.hide(&raw.place);
    }
    layer.insert(row.id(), Given { value, shown, place: raw.place });
}
