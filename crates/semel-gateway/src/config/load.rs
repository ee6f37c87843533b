//! From the text to the configuration.

use semel_http::{RouteError, Routes};

use super::effective::Effective;
use super::fault::{Faults, Found, Place};
use super::gather::{Gathered, Given, RouteLayer};
use super::settings::policy::MATCH;
use super::settings::top;
use super::source::Source;
use super::syntax::{self, Broken};
use super::value::Value;
use super::values::Level;
use super::{Config, Flags, StoreChoice, check, policy};

/// A file of routes needs no more.
const SOURCE_MAX: usize = 1 << 20;

/// What was set, and what is wrong with it so far.
struct Read {
    gathered: Gathered,
    broken: Broken,
    syntax: Found,
    found: Found,
}

pub(super) fn load(
    source: Option<&Source<'_>>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Flags,
) -> Result<Config, Faults> {
    let mut read = Read::new(source, env, flags);
    let config = checked(&read.gathered, source, &read.broken, &mut read.found);
    read.judged(config, source)
}

/// The store alone. Every value is read all the same, so that a misspelt one is reported.
pub(super) fn store(
    source: Option<&Source<'_>>,
    env: impl IntoIterator<Item = (String, String)>,
    flags: &Flags,
) -> Result<StoreChoice, Faults> {
    let mut read = Read::new(source, env, flags);
    let effective = Effective::new(&read.gathered);
    check::store(&effective, &mut read.found);
    read.judged(Some(effective.general.get(&top::STORE)), source)
}

// === impl Read ===

impl Read {
    fn new(
        source: Option<&Source<'_>>,
        env: impl IntoIterator<Item = (String, String)>,
        flags: &Flags,
    ) -> Self {
        let (mut syntax, mut found) = (Found::default(), Found::default());
        let mut gathered = Gathered::default();
        let broken = match source {
            Some(source) => add_file(&mut gathered, source, &mut syntax, &mut found),
            None => Broken::default(),
        };
        for (name, text) in env {
            gathered.add_variable(&name, &text, &mut found);
        }
        gathered.add_flags(flags, &mut found);
        Self { gathered, broken, syntax, found }
    }

    /// What was made of it, if nothing is wrong.
    fn judged<T>(self, made: Option<T>, source: Option<&Source<'_>>) -> Result<T, Faults> {
        let Self { broken, syntax, mut found, .. } = self;
        if let Some(source) = source {
            found.retain(|place| !broken.taints(place, source));
        }
        found.extend(syntax);
        match made {
            Some(made) if found.is_empty() => Ok(made),
            _ => Err(found.into_faults(source)),
        }
    }
}

fn add_file(
    gathered: &mut Gathered,
    source: &Source<'_>,
    syntax: &mut Found,
    found: &mut Found,
) -> Broken {
    let bytes = source.text.len();
    if bytes > SOURCE_MAX {
        syntax.add(Place::Whole, format!("the file has {bytes} bytes"), "keep it below 1 MiB");
        return Broken::everywhere();
    }
    let (table, broken) = syntax::parse(source, syntax);
    gathered.add_file(&table, found);
    broken
}

/// The configuration; `None` only if something is wrong.
fn checked(
    gathered: &Gathered,
    source: Option<&Source<'_>>,
    broken: &Broken,
    found: &mut Found,
) -> Option<Config> {
    let mut effective = Effective::new(gathered);
    check::addresses(&effective, found);
    check::store(&effective, found);
    check::tls(&effective, gathered, found);
    if !gathered.has(&top::UPSTREAM) {
        let cure = "name the API behind the gateway, such as upstream = \"http://127.0.0.1:3000\" \
                    in the file, or with --upstream or SEMEL_UPSTREAM";
        found.add(Place::Whole, "`upstream` is missing", cure);
    }
    let fallback = policy::build(&effective.general, &Place::Whole, found);
    let mut routes = Routes::new(fallback.unwrap_or_default());
    for (number, layer) in gathered.routes.iter().enumerate() {
        let values = effective.general.clone().with(&layer.settings, Level::Route);
        let given = layer.settings.get(&MATCH.id());
        let place = given.map_or(&layer.place, |given| &given.place);
        let policy = policy::build(&values, place, found).unwrap_or_default();
        // If lines could not be read, `match` may be in one of them.
        if given.is_none() && !broken.is_any() {
            let cure = "say which requests it is for, such as match = \"POST /v1/charges\"";
            found.add(place.clone(), "the route has no `match`", cure);
        }
        let Some((text, shown)) = given.and_then(pattern) else { continue };
        if let Err(error) = routes.add(text, policy) {
            let (what, cure) = explained(&error, &gathered.routes[..number], source);
            found.add(place.clone(), format!("`match` is {shown}, {what}"), cure);
        } else {
            let name = routes.all().last().map_or("", |route| route.name());
            effective.routes.push((name.to_owned(), values));
        }
    }
    check::memory(&effective, found);
    check::payments(&effective, found);
    check::tokens(&effective, gathered, found);
    #[cfg(feature = "redis")]
    effective.require_durable_for_payments();
    effective.into_config(routes, source)
}

/// What a route matches, and how that was written, unless it was refused.
fn pattern(given: &Given) -> Option<(&str, &str)> {
    match &given.value {
        Some(Value::Text(text)) => Some((text, &given.shown)),
        _ => None,
    }
}

/// What is wrong with a route that comes after the routes `before`.
fn explained(
    error: &RouteError,
    before: &[RouteLayer],
    source: Option<&Source<'_>>,
) -> (String, &'static str) {
    match error {
        RouteError::Conflict { new, old } => {
            let method = new.split(' ').next().unwrap_or_default();
            let line = before.iter().find_map(|layer| {
                let given = layer.settings.get(&MATCH.id())?;
                let (its_method, path) = pattern(given)?.0.split_once(' ')?;
                let Place::File(start, _) = given.place else { return None };
                let is_it = its_method == method && path.trim_start() == old;
                is_it.then(|| source.map(|source| source.line_number(start)))?
            });
            let line = line.map(|line| format!(" in line {line}")).unwrap_or_default();
            let what = format!("which matches the same requests as \"{method} {old}\"{line}");
            (what, "keep one of them")
        }
        RouteError::BadPattern { .. } => (
            "whose path is not a pattern".to_owned(),
            "write {name} for one whole segment, and {*rest} at the end for all that follow",
        ),
        _ => (
            "which is not a route".to_owned(),
            "write METHOD PATH, such as \"POST /v1/charges/{id}\", the method in capitals or * for any",
        ),
    }
}
