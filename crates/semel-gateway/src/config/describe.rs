//! What `semel check` prints: every value in effect, and where it comes from.

use super::fault::Place;
use super::settings::{self, Kind, Section, Setting};
use super::sheet::{By, Entry, Level, Origin, Sheet};
use super::sheets::Sheets;
use super::source::Source;

/// Longer values push aside where they come from.
const VALUE_WIDTH: usize = 34;

pub(super) fn describe(sheets: &Sheets, source: Option<&Source<'_>>) -> String {
    let mut out = String::new();
    let mut add = |heading: &str, section: Section, sheet: &Sheet, is_route: bool| {
        if !heading.is_empty() {
            out.extend(["\n", heading, "\n"]);
        }
        for setting in settings::of(section).filter(|setting| setting.name != "match") {
            out.push_str(&row(setting, sheet.get(setting.name), is_route, source));
        }
    };
    add("", Section::Top, &sheets.top, false);
    for section in [Section::Tls, Section::UpstreamTls, Section::Limits] {
        add(&section.heading(), section, sheets.of(section), false);
    }
    add("route * (all that no other route matches)", Section::Policy, &sheets.policy, false);
    for (name, sheet) in &sheets.routes {
        add(&format!("route {name}"), Section::Route, sheet, true);
    }
    out
}

fn row(
    setting: &Setting,
    entry: Option<&Entry>,
    is_route: bool,
    source: Option<&Source<'_>>,
) -> String {
    let (value, origin) = match entry {
        Some(entry) => (entry.shown.clone(), origin(&entry.origin, is_route, source)),
        // What nobody turned on is off.
        None if matches!(setting.kind, Kind::Switch) => ("false".to_owned(), "default".to_owned()),
        None => ("-".to_owned(), "default".to_owned()),
    };
    format!("  {:<20}  {value:<VALUE_WIDTH$}  {origin}\n", setting.name)
}

fn origin(origin: &Origin, is_route: bool, source: Option<&Source<'_>>) -> String {
    let (level, by) = match origin {
        Origin::Default => return "default".to_owned(),
        Origin::At(level, by) => (*level, by),
    };
    let by = match by {
        By::Profile(word, _) => format!("profile {word}"),
        By::Preset(word, _) => format!("preset {word}"),
        By::Itself(Place::Variable(name)) => name.clone(),
        By::Itself(Place::Flag(name)) => (*name).to_owned(),
        By::Itself(Place::File(start, _)) => {
            let line = source.map_or(0, |source| source.line_number(*start));
            format!("file line {line}")
        }
        By::Itself(Place::Whole) => "file".to_owned(),
    };
    match (is_route, level) {
        (true, Level::General) => format!("inherited from [policy], {by}"),
        _ => by,
    }
}
