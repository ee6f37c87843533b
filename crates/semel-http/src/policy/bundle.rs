//! What profiles and presets choose: the one table, for the builder and for configuration files.

use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use semel_core::{OnAbandoned, OnStoreDown, OnUnknown};

use super::{JwtUnverified, OnMissingScope, Preset, Profile, RoutePolicyBuilder, StatusPattern};
use crate::headers;

/// What a profile or a preset chooses, as a configuration file has it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Bundle {
    /// The word for the profile or the preset.
    pub word: &'static str,
    /// Half a sentence about it.
    pub summary: &'static str,
    /// The settings by name, each with its value in TOML.
    pub settings: Vec<(&'static str, String)>,
}

/// Each setting is called as its method of the builder.
macro_rules! bundles {
    ($choice:ident: $($variant:ident, $summary:literal { $($setting:ident: $value:expr,)+ })+) => {
        impl $choice {
            /// What each of them chooses.
            pub fn bundles() -> Vec<Bundle> {
                vec![$(Bundle {
                    word: Self::$variant.as_str(),
                    summary: $summary,
                    settings: vec![$((stringify!($setting), $value.written())),+],
                }),+]
            }

            pub(super) fn apply(self, builder: RoutePolicyBuilder) -> RoutePolicyBuilder {
                match self { $(Self::$variant => builder$(.$setting($value))+),+ }
            }
        }
    };
}

bundles! { Profile:
    Classic, "409 for a mismatch" {
        release_statuses: refusals_and_5xx(),
        mismatch_status: StatusCode::CONFLICT,
        key_max_length: 128,
        replay_headers: true_in(headers::REPLAYED),
    }
    Ietf, "As the IETF draft has it: 422 for a mismatch" {
        release_statuses: refusals_and_5xx(),
        mismatch_status: StatusCode::UNPROCESSABLE_ENTITY,
        key_max_length: 128,
        replay_headers: true_in(headers::REPLAYED),
    }
    Stripe, "As Stripe documents it: 400 for a mismatch, 5xx kept too" {
        release_statuses: each(&REFUSALS),
        mismatch_status: StatusCode::BAD_REQUEST,
        key_max_length: 255,
        replay_headers: true_in(HeaderName::from_static("idempotent-replayed")),
    }
}

bundles! { Preset:
    Payments, "Rather held than twice" {
        on_store_down: OnStoreDown::Closed,
        on_abandoned: OnAbandoned::Hold,
        on_unknown: OnUnknown::Hold,
        unknown_statuses: each(&PAYMENTS_UNKNOWN),
        on_missing_scope: OnMissingScope::Reject,
        jwt_unverified: JwtUnverified::Refuse,
        ttl: Duration::from_hours(48),
    }
    Api, "Most APIs" {
        ttl: Duration::from_hours(24),
    }
    Notifications, "Rather twice than never" {
        on_store_down: OnStoreDown::Open,
        on_abandoned: OnAbandoned::Reexecute,
        ttl: Duration::from_hours(4),
    }
    Batch, "Long runs" {
        ttl: Duration::from_hours(7 * 24),
    }
}

/// The work was refused, whatever it was.
const REFUSALS: [StatusCode; 3] =
    [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];

/// What a server may answer after the work was done: an exception behind the charge, or a proxy that
/// lost the answer of the service behind it. 503 is left out: it says that the work was refused.
const PAYMENTS_UNKNOWN: [StatusCode; 3] =
    [StatusCode::INTERNAL_SERVER_ERROR, StatusCode::BAD_GATEWAY, StatusCode::GATEWAY_TIMEOUT];

fn each(statuses: &[StatusCode]) -> Vec<StatusPattern> {
    statuses.iter().copied().map(StatusPattern::One).collect()
}

fn refusals_and_5xx() -> Vec<StatusPattern> {
    [each(&REFUSALS), vec![StatusPattern::Class(5)]].concat()
}

fn true_in(name: HeaderName) -> Vec<(HeaderName, HeaderValue)> {
    vec![(name, headers::TRUE)]
}

/// A value of a setting.
trait Written {
    /// In TOML.
    fn written(&self) -> String;
}

/// The units of durations in files, in milliseconds.
const UNITS: [(u128, &str); 5] =
    [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s"), (1, "ms")];

impl Written for Duration {
    /// In the largest unit of which it has more than two: `48h`, not `2d`.
    fn written(&self) -> String {
        let millis = self.as_millis();
        let fits = |(unit, _): &&(u128, &str)| millis.is_multiple_of(*unit) && millis / unit > 2;
        let (unit, name) = UNITS.iter().find(fits).unwrap_or(&(1, "ms"));
        format!("\"{}{name}\"", millis / unit)
    }
}

impl Written for StatusCode {
    fn written(&self) -> String {
        self.as_str().to_owned()
    }
}

impl Written for usize {
    fn written(&self) -> String {
        self.to_string()
    }
}

impl Written for Vec<StatusPattern> {
    fn written(&self) -> String {
        let statuses: Vec<_> = self.iter().map(|status| format!("\"{status}\"")).collect();
        format!("[{}]", statuses.join(", "))
    }
}

impl Written for Vec<(HeaderName, HeaderValue)> {
    fn written(&self) -> String {
        let line = |(name, value): &(HeaderName, HeaderValue)| {
            format!("\"{}: {}\"", capitalised(name), value.to_str().unwrap_or_default())
        };
        format!("[{}]", self.iter().map(line).collect::<Vec<_>>().join(", "))
    }
}

/// A name of a header as people write it: `X-Tenant`.
fn capitalised(name: &HeaderName) -> String {
    let parts = name.as_str().split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    });
    parts.collect::<Vec<_>>().join("-")
}

/// The words of choices.
macro_rules! written_by_word {
    ($($choice:ident => $word:expr;)+) => {
        $(impl Written for $choice {
            fn written(&self) -> String {
                format!("{:?}", $word(*self))
            }
        })+
    };
}

written_by_word! {
    OnMissingScope => Self::as_str;
    JwtUnverified => Self::as_str;
    OnStoreDown => |it| match it { Self::Closed => "closed", Self::Open => "open" };
    OnUnknown => |it| match it { Self::Release => "release", Self::Hold => "hold" };
    OnAbandoned => |it| match it {
        Self::Reexecute => "reexecute",
        Self::Fail => "fail",
        Self::Hold => "hold",
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_configuration_has_them() {
        let bundle = |word| {
            let all = Profile::bundles().into_iter().chain(Preset::bundles());
            all.into_iter().find(|bundle| bundle.word == word).unwrap().settings
        };
        let written = |word, setting| {
            let found = bundle(word).into_iter().find(|(name, _)| *name == setting);
            found.unwrap().1
        };
        assert_eq!(written("classic", "release_statuses"), r#"["408", "425", "429", "5xx"]"#);
        assert_eq!(written("stripe", "replay_headers"), r#"["Idempotent-Replayed: true"]"#);
        assert_eq!(written("ietf", "mismatch_status"), "422");
        assert_eq!(written("stripe", "key_max_length"), "255");
        assert_eq!(written("payments", "jwt_unverified"), r#""refuse""#);
        assert_eq!(written("notifications", "on_abandoned"), r#""reexecute""#);
        let ttl = ["payments", "api", "notifications", "batch"].map(|word| written(word, "ttl"));
        assert_eq!(ttl, [r#""48h""#, r#""24h""#, r#""4h""#, r#""7d""#]);
    }

    #[test]
    fn durations_are_written_in_whole_units() {
        for (millis, text) in [(0, "0ms"), (1, "1ms"), (1500, "1500ms"), (60_000, "60s")] {
            assert_eq!(Duration::from_millis(millis).written(), format!("\"{text}\""));
        }
    }
}
