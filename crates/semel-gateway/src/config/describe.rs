//! What `semel check` prints: every value in effect, and where it comes from.

use std::time::Duration;

use semel_core::OnUnknown;
use semel_http::{JwtUnverified, Mode, OnMissingScope, ScopeSource};

use super::check::reads_tokens;
use super::effective::Effective;
use super::fault::Place;
use super::settings::{self, Kind, Row, Section, jwt, policy};
use super::source::Source;
use super::values::{By, Level, Origin, Values};

/// Longer values push aside where they come from.
const VALUE_WIDTH: usize = 34;

pub(super) fn describe(effective: &Effective, source: Option<&Source<'_>>) -> String {
    let mut out = String::new();
    let is_verified = effective.general.get(&jwt::KEYS).is_some();
    let mut add = |heading: &str, section: Section, values: &Values, is_route: bool| {
        if !heading.is_empty() {
            out.extend(["\n", heading, "\n"]);
        }
        for setting in settings::of(section) {
            out.push_str(&row(setting, values, is_route, source));
        }
        if section == Section::Policy {
            out.extend(notes(values, is_verified));
        }
        if section == Section::Jwt && is_verified && values.get(&jwt::AUDIENCE).is_none() {
            out.push_str(ANY_AUDIENCE);
        }
    };
    for section in Section::GENERAL {
        let heading = match section {
            Section::Top => String::new(),
            Section::Policy => "route * (all that no other route matches)".to_owned(),
            section => section.heading(),
        };
        add(&heading, section, &effective.general, false);
    }
    for (name, values) in &effective.routes {
        add(&format!("route {name}"), Section::Policy, values, true);
    }
    out
}

/// What a reader of the values might not see in them.
fn notes(values: &Values, is_verified: bool) -> impl Iterator<Item = &'static str> {
    let mode = values.get(&policy::MODE);
    let (is_on, protects) = (mode != Mode::Off, mode == Mode::Protect);
    let scope = values.get(&policy::SCOPE);
    let is_global = scope.contains(&ScopeSource::Global);
    let by_address = scope.contains(&ScopeSource::ClientIp);
    let rejects = values.get(&policy::ON_MISSING_SCOPE) == OnMissingScope::Reject;
    let reads_tokens = reads_tokens(values);
    let is_trusted = values.get(&policy::JWT_UNVERIFIED) == JwtUnverified::BehindAVerifier;
    let releases = values.get(&policy::ON_UNKNOWN) == OnUnknown::Release;
    let notes = [
        // Client identity counts in shadow mode, too: the log at the start names the same routes.
        (is_on && reads_tokens && is_verified, IS_VERIFIED),
        (is_on && reads_tokens && !is_verified && !is_trusted, IS_UNVERIFIED),
        (is_on && is_global, IS_GLOBAL),
        (is_on && !is_global && !rejects && !by_address, IS_ANONYMOUS),
        (protects && releases, UNKNOWN_IS_RELEASED),
        (protects && values.get(&policy::LEASE) < VERB_MAX, LEASE_IS_SHORT),
    ];
    notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note)
}

/// How long a store may take for one verb.
const VERB_MAX: Duration = Duration::from_secs(2);

const IS_GLOBAL: &str = concat!(
    "  note: all clients share one scope here: one that uses another's key with the same request is\n",
    "        answered with what that other client was. Executions and new keys are not counted by client.\n",
);

const IS_VERIFIED: &str = concat!(
    "  note: tokens are verified here, but only those of requests that come under protection. The API\n",
    "        must go on checking them.\n",
);

const IS_UNVERIFIED: &str = concat!(
    "  note: tokens are not verified here: a forged one names another client's scope. [jwt] verifies them;\n",
    "        jwt_unverified = \"behind-a-verifier\" says that something in front does.\n",
);

const ANY_AUDIENCE: &str = "  note: tokens for other services of this issuer count here too. audience = [\"…\"] refuses them.\n";

const IS_ANONYMOUS: &str = concat!(
    "  note: clients without a credential share one scope here: one that uses another's key with the\n",
    "        same request is answered with what that other client was. on_missing_scope = \"reject\"\n",
    "        refuses them instead. Nor are they counted by max_executions_per_scope and new_keys_per_scope.\n",
);

const LEASE_IS_SHORT: &str = concat!(
    "  note: a verb of the store may take 2s, and the lease is shorter: it may run out before it can be\n",
    "        renewed, and another node take over work that goes on. 30s suits most work.\n",
);

const UNKNOWN_IS_RELEASED: &str = concat!(
    "  note: an unknown outcome is released here, so a retry may execute the work a second time: after\n",
    "        a lost connection, after upstream_timeout, and for a status in unknown_statuses.\n",
    "        on_unknown = \"hold\" refuses the retry instead.\n",
);

fn row(setting: &Row, values: &Values, is_route: bool, source: Option<&Source<'_>>) -> String {
    let (value, origin) = match values.entry(setting) {
        Some(entry) => (entry.shown.clone(), origin(&entry.origin, is_route, source)),
        // What is not set is off.
        None if matches!(setting.kind, Kind::Switch) => ("false".to_owned(), "default".to_owned()),
        None => ("-".to_owned(), "default".to_owned()),
    };
    format!("  {:<24}  {value:<VALUE_WIDTH$}  {origin}\n", setting.name)
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
