//! What can be set: one table, from which files and variables are read, faults explained, the
//! schema and the reference page written.
//!
//! Each setting is a constant, which names the Rust type of its value: `values.get(&limits::HEADER_TIMEOUT)` is a
//! `Duration`. Whatever treats all of them alike sees their rows.

mod kind;

/// Constants for settings, and the table of them. A setting without a default is an `Option`.
macro_rules! settings {
    ($table:ident in $section:ident; $(
        $(#[doc = $doc:literal])+
        $setting:ident: $type:ty = $name:ident($kind:expr)$(.$method:ident($($arg:expr),*))*;
    )+) => {
        $(pub(in crate::config) const $setting: Setting<$type> =
            Setting::new(Section::$section, stringify!($name), &$kind, concat!($($doc),+))
                $(.$method($($arg),*))*;)+

        pub(super) const $table: &[&Row] = &[$(&$setting.row),+];
    };
}

pub(super) mod jwt;
pub(super) mod limits;
pub(super) mod policy;
pub(super) mod tls;
pub(super) mod top;

pub(super) use kind::{Item, Kind};

use std::iter;
use std::marker::PhantomData;
use std::ops::Deref;

use semel_http::RoutePolicyBuilder;

use super::values::Values;
use kind::Typed;

/// One thing that can be set, of which a `T` is made.
#[derive(Debug)]
pub(super) struct Setting<T> {
    pub(super) row: Row,
    of: PhantomData<fn() -> T>,
}

/// One thing that can be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row {
    pub(super) section: Section,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As one would write it in the file. It is JSON, too.
    pub(super) default: Option<&'static str>,
    /// One sentence.
    pub(super) doc: &'static str,
    /// Does a change take effect only at the next start?
    pub(super) restart: bool,
    /// How a policy is given the value in effect.
    pub(super) apply: Option<Apply>,
}

pub(super) type Apply = fn(RoutePolicyBuilder, &Values) -> RoutePolicyBuilder;

/// What no two rows share.
pub(super) type Id = (Section, &'static str);

/// The part of the file that a setting belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Section {
    Top,
    Tls,
    UpstreamTls,
    Jwt,
    Limits,
    /// `[policy]`, and also every `[[route]]`.
    Policy,
    /// What only a `[[route]]` has.
    Route,
}

// === impl Setting ===

impl<T> Setting<Option<T>> {
    const fn new(section: Section, name: &'static str, kind: &Typed<T>, doc: &'static str) -> Self {
        let (kind, doc) = (kind.kind, doc.trim_ascii_start());
        let row = Row { section, name, kind, default: None, doc, restart: false, apply: None };
        Self { row, of: PhantomData }
    }

    const fn or(self, default: &'static str) -> Setting<T> {
        Setting { row: Row { default: Some(default), ..self.row }, of: PhantomData }
    }
}

impl<T> Setting<T> {
    const fn at_start(mut self) -> Self {
        self.row.restart = true;
        self
    }

    const fn applied(mut self, apply: Apply) -> Self {
        self.row.apply = Some(apply);
        self
    }
}

impl<T> Deref for Setting<T> {
    type Target = Row;

    fn deref(&self) -> &Row {
        &self.row
    }
}

// === impl Row ===

impl Row {
    pub(super) const fn id(&self) -> Id {
        (self.section, self.name)
    }

    /// The environment variable that sets it; routes have none.
    pub(super) fn variable(&self) -> Option<String> {
        let section = match self.section {
            Section::Route => return None,
            Section::Top => String::new(),
            section => format!("{}_", section.table()),
        };
        Some(format!("SEMEL_{section}{}", self.name).to_uppercase())
    }

    /// Can it stand in this section?
    pub(super) fn is_in(&self, section: Section) -> bool {
        self.section == section || (section == Section::Route && self.section == Section::Policy)
    }
}

// === impl Section ===

impl Section {
    /// What holds for all requests, in the order of the reference.
    pub(super) const GENERAL: [Self; 6] =
        [Self::Top, Self::Tls, Self::UpstreamTls, Self::Jwt, Self::Limits, Self::Policy];

    /// The tables of the file, and the list of them.
    pub(super) const TABLES: [Self; 6] =
        [Self::Tls, Self::UpstreamTls, Self::Jwt, Self::Limits, Self::Policy, Self::Route];

    /// The name of its table.
    pub(super) const fn table(self) -> &'static str {
        match self {
            Self::Top => "",
            Self::Tls => "tls",
            Self::UpstreamTls => "upstream_tls",
            Self::Jwt => "jwt",
            Self::Limits => "limits",
            Self::Policy => "policy",
            Self::Route => "route",
        }
    }

    /// Its heading, as in the file.
    pub(super) fn heading(self) -> String {
        match self {
            Self::Top => "the top of the file".to_owned(),
            Self::Route => "[[route]]".to_owned(),
            section => format!("[{}]", section.table()),
        }
    }
}

/// Every setting, in the order of the reference.
pub(super) fn all() -> impl Iterator<Item = &'static Row> {
    let tables = [top::SETTINGS, tls::CLIENTS, tls::UPSTREAM, jwt::SETTINGS, limits::SETTINGS];
    let policy = iter::once(&policy::MATCH.row).chain(policy::SETTINGS.iter().copied());
    tables.into_iter().flatten().copied().chain(policy)
}

/// Those that can stand in `section`.
pub(super) fn of(section: Section) -> impl Iterator<Item = &'static Row> {
    all().filter(move |row| row.is_in(section))
}

/// The one of this name in `section`.
pub(super) fn find(section: Section, name: &str) -> Option<&'static Row> {
    of(section).find(|row| row.name == name)
}
