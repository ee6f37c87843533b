//! What a reload changes, for the log.

use super::effective::Effective;
use super::settings::{self, Section};
use super::values::Values;

/// A line for each setting whose value differs in `new`.
pub(super) fn changes(old: &Effective, new: &Effective) -> Vec<String> {
    let mut lines = Vec::new();
    for section in Section::GENERAL {
        let place = match section {
            Section::Top => String::new(),
            Section::Policy => "route * ".to_owned(),
            section => section.heading() + " ",
        };
        compare(&place, section, &old.general, &new.general, &mut lines);
    }
    for (name, values) in &new.routes {
        match route(old, name) {
            Some(before) => {
                compare(&format!("route {name}: "), Section::Policy, before, values, &mut lines);
            }
            None => lines.push(format!("route {name} is new")),
        }
    }
    let gone = old.routes.iter().filter(|(name, _)| route(new, name).is_none());
    lines.extend(gone.map(|(name, _)| format!("route {name} is gone")));
    lines
}

fn route<'a>(effective: &'a Effective, name: &str) -> Option<&'a Values> {
    effective.routes.iter().find(|(other, _)| other == name).map(|(_, values)| values)
}

fn compare(place: &str, section: Section, old: &Values, new: &Values, lines: &mut Vec<String>) {
    for row in settings::of(section).filter(|row| old.value(row) != new.value(row)) {
        lines.push(format!("{place}{}: {} -> {}", row.name, old.shown(row), new.shown(row)));
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{Config, Flags};

    fn load(file: &str) -> Config {
        Config::load(Some(("f", file)), [], &Flags::default()).unwrap()
    }

    #[test]
    fn settings_routes_and_tables_are_compared_by_value() {
        let old = load(
            "upstream = \"http://a\"\n[policy]\nlease = \"30s\"\n[[route]]\nmatch = \"POST /gone\"\n\
             [[route]]\nmatch = \"POST /kept\"\n",
        );
        let new = load(
            "upstream = \"http://b\"\n[policy]\nlease = \"30000ms\"\n[limits]\nmax_waiters = 5\n\
             [[route]]\nmatch = \"POST /kept\"\nlease = \"5s\"\n[[route]]\nmatch = \"POST /new\"\n",
        );
        assert_eq!(
            old.changes(&new),
            [
                "upstream: \"http://a\" -> \"http://b\"",
                "[limits] max_waiters: 10000 -> 5",
                "route POST /kept: lease: \"30s\" -> \"5s\"",
                "route POST /new is new",
                "route POST /gone is gone",
            ]
        );
        assert_eq!(old.changes(&old), [""; 0]);
    }
}
