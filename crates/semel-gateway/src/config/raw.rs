//! A value as it was written, in the file or in an environment variable.

use toml::Spanned;
use toml::de::{DeInteger, DeValue};

use super::fault::Place;
use super::settings::Kind;
use super::source::masked;
use super::store;

/// A value, and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Raw {
    pub(super) place: Place,
    pub(super) form: Form,
}

/// What is there.
#[derive(Clone, Debug)]
pub(super) enum Form {
    Text(String),
    /// A number, unless it is below zero or absurdly large.
    Integer(String, Option<u64>),
    Switch(bool),
    List(Vec<Raw>),
    /// Nothing that any setting takes.
    Other(String),
}

/// How much of a value is quoted in a fault.
const QUOTED_MAX: usize = 60;

// === impl Raw ===

impl Raw {
    /// From the file.
    pub(super) fn from_toml(value: &Spanned<DeValue<'_>>) -> Self {
        let form = match value.get_ref() {
            DeValue::String(text) => Form::Text(text.clone().into_owned()),
            DeValue::Integer(number) => Form::Integer(number.to_string(), number_of(number)),
            DeValue::Boolean(on) => Form::Switch(*on),
            DeValue::Array(items) => Form::List(items.iter().map(Self::from_toml).collect()),
            DeValue::Float(number) => Form::Other(number.to_string()),
            DeValue::Datetime(time) => Form::Other(time.to_string()),
            DeValue::Table(_) => Form::Other("a table".to_owned()),
        };
        Self { place: Place::of(&value.span()), form }
    }

    /// From a variable or a flag, which are always texts. Lists are separated by commas.
    pub(super) fn from_text(text: &str, kind: Kind, place: Place) -> Self {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let form = match (kind, text) {
            (Kind::List(_), "") => Form::List(Vec::new()),
            (Kind::List(_), text) => {
                let item = |item: &str| Form::Text(item.trim().to_owned());
                let items = text.split(',').map(item);
                Form::List(items.map(|form| Self { place: place.clone(), form }).collect())
            }
            (Kind::Integer { .. } | Kind::Size { .. }, text) if is_number => {
                Form::Integer(text.to_owned(), text.parse().ok())
            }
            (Kind::Switch, "true") => Form::Switch(true),
            (Kind::Switch, "false") => Form::Switch(false),
            (_, text) => Form::Text(text.to_owned()),
        };
        Self { place, form }
    }

    /// As one would write it in the file.
    pub(super) fn shown(&self) -> String {
        match &self.form {
            Form::Text(text) => format!("{text:?}"),
            Form::Integer(text, _) | Form::Other(text) => text.clone(),
            Form::Switch(on) => on.to_string(),
            Form::List(items) => {
                let items: Vec<_> = items.iter().map(Self::shown).collect();
                format!("[{}]", items.join(", "))
            }
        }
    }

    /// The same, without what may be a secret in a setting of this kind.
    pub(super) fn redacted(&self, kind: Kind) -> String {
        match (kind, &self.form) {
            (Kind::Store, Form::Text(text)) => format!("{:?}", store::redacted(text)),
            _ => masked(&self.shown()),
        }
    }

    /// The same, for a fault.
    pub(super) fn quoted_as(&self, kind: Kind) -> String {
        // Redacted first: the end of a password that is cut off cannot be found.
        self.shortened(self.redacted(kind))
    }

    /// The same, if no setting is known that it could be for.
    pub(super) fn quoted(&self) -> String {
        self.shortened(masked(&self.shown()))
    }

    /// Not longer than a line takes.
    fn shortened(&self, text: String) -> String {
        match &self.form {
            _ if text.chars().count() <= QUOTED_MAX => text,
            Form::List(items) => format!("a list of {}", items.len()),
            _ => {
                let head: String = text.chars().take(QUOTED_MAX).collect();
                format!("{head}…")
            }
        }
    }
}

fn number_of(number: &DeInteger<'_>) -> Option<u64> {
    u64::from_str_radix(number.as_str(), number.radix()).ok()
}
