//! What can be set: one table, from which files and variables are read, faults explained, the
//! schema and the reference page written.

mod jwt;
mod limits;
mod policy;
mod top;

use std::iter;

/// One thing that can be set.
#[derive(Debug)]
pub(super) struct Setting {
    pub(super) section: Section,
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// As one would write it in the file. It is JSON, too.
    pub(super) default: Option<&'static str>,
    /// One sentence.
    pub(super) doc: &'static str,
    /// Does a change take effect only at the next start?
    pub(super) restart: bool,
}

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

/// What values a setting takes. Limits are written as a user would write them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Word(&'static [&'static str]),
    Switch,
    Integer {
        min: u64,
        max: u64,
    },
    Time {
        min: &'static str,
        max: &'static str,
    },
    Size {
        min: &'static str,
        max: &'static str,
    },
    RateOrOff,
    Address,
    AddressOrOff,
    Upstream,
    Store,
    Namespace,
    Host,
    Path,
    /// Where keys of tokens are.
    Keys,
    Text,
    Match,
    Source,
    List(Item),
}

/// What a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// At least one source of a key.
    KeySource,
    /// At least one source of an identity.
    ScopeSource,
    HeaderName,
    Method,
    /// At least one.
    Algorithm,
    Audience,
    Pointer,
    Status,
    HeaderLine,
}

// === impl Setting ===

impl Setting {
    const fn new(section: Section, name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { section, name, kind, default: None, doc, restart: false }
    }

    const fn or(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    const fn at_start(mut self) -> Self {
        self.restart = true;
        self
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
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    let matches = iter::once(&policy::MATCH);
    let tables = top::SETTINGS.iter().chain(jwt::SETTINGS).chain(limits::SETTINGS);
    tables.chain(matches).chain(policy::SETTINGS)
}

/// Those that can stand in `section`.
pub(super) fn of(section: Section) -> impl Iterator<Item = &'static Setting> {
    all().filter(move |setting| setting.is_in(section))
}

/// The one of this name in `section`.
pub(super) fn find(section: Section, name: &str) -> Option<&'static Setting> {
    of(section).find(|setting| setting.name == name)
}
