//! What to say about a name that is not known.

use super::nearest::nearest;
use super::settings::{self, Row, Section};

/// What is wrong with a name in `section`, and a cure.
pub(super) fn setting(section: Section, name: &str) -> (String, String) {
    let shown: String = name.chars().take(60).collect();
    let what = match section {
        Section::Top => format!("`{}` is not known here", shown.escape_debug()),
        section => format!("`{}` is not a setting of {}", shown.escape_debug(), section.heading()),
    };
    (what, cure(section, name))
}

fn cure(section: Section, name: &str) -> String {
    let homes: Vec<_> =
        settings::all().filter(|setting| setting.name == name).map(home_of).collect();
    let known = settings::of(section).map(|setting| setting.name);
    let tables = Section::TABLES.map(Section::table);
    let tables = tables.into_iter().filter(|_| section == Section::Top);
    if !homes.is_empty() {
        return format!("move it to {}", homes.join(" or to "));
    }
    if let Some(table) = Section::TABLES.iter().find(|table| table.table() == name) {
        return format!("make it a table of its own: {}", table.heading());
    }
    match nearest(name, known.chain(tables)) {
        Some(meant) => match Section::TABLES.iter().find(|table| table.table() == meant) {
            Some(table) if section == Section::Top => {
                format!("did you mean `{}`?", table.heading())
            }
            _ => format!("did you mean `{meant}`?"),
        },
        None => "remove it; docs/reference/configuration.md has all settings".to_owned(),
    }
}

fn home_of(setting: &Row) -> String {
    match setting.section {
        Section::Top => "the top of the file, above the first [table]".to_owned(),
        Section::Policy => "[policy] or to a [[route]]".to_owned(),
        section => section.heading(),
    }
}

/// The cure for an environment variable that names no setting.
pub(super) fn variable_cure(name: &str) -> String {
    if ["_SERVICE_HOST", "_SERVICE_PORT", "_PORT_"].iter().any(|part| name.contains(part))
        || name.ends_with("_PORT")
    {
        return "unset it; if Kubernetes made it for a Service of this name, give the pod \
                enableServiceLinks: false"
            .to_owned();
    }
    // What all have in common says nothing about which one is near.
    let bare = |name: &str| name.trim_start_matches("SEMEL_").to_owned();
    let known: Vec<_> = settings::all().filter_map(Row::variable).map(|name| bare(&name)).collect();
    match nearest(&bare(name), known.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `SEMEL_{meant}`?"),
        None => "unset it; docs/reference/configuration.md has all variables".to_owned(),
    }
}
