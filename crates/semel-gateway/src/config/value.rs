//! Values of settings, read and checked one by one.

use std::net::SocketAddr;
use std::time::Duration;

use http::Method;
use http::header::{HeaderName, HeaderValue};
use semel_engine::Rate;
use semel_http::json::Pointer;
use semel_http::jwt::TokenAlgorithm;
use semel_http::{PartSource, ScopeSource, StatusPattern};

use super::fault::Found;
use super::jwt::KeysFrom;
use super::list;
use super::nearest::nearest;
use super::raw::{Form, Raw};
use super::settings::{Kind, Row};
use super::upstream::{Upstream, is_host};
use super::{StoreChoice, units};

/// A value that its setting takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Word(&'static str),
    Text(String),
    Switch(bool),
    /// Integers and sizes.
    Number(u64),
    Time(Duration),
    /// `None` is off.
    Rate(Option<Rate>),
    /// `None` is off.
    Address(Option<SocketAddr>),
    Upstream(Upstream),
    Store(StoreChoice),
    Keys(KeysFrom),
    Algorithms(Vec<TokenAlgorithm>),
    Texts(Vec<String>),
    Source(PartSource),
    KeySources(Vec<PartSource>),
    ScopeSources(Vec<ScopeSource>),
    HeaderNames(Vec<HeaderName>),
    Methods(Vec<Method>),
    Pointers(Vec<Pointer>),
    Statuses(Vec<StatusPattern>),
    HeaderLines(Vec<(HeaderName, HeaderValue)>),
}

/// What follows "`name` is value, ", and the cure.
pub(super) type Refusal = (String, String);

/// Reads a value, or adds to `found` what is wrong with it.
pub(super) fn read(setting: &Row, raw: &Raw, found: &mut Found) -> Option<Value> {
    let refused = match (setting.kind, &raw.form) {
        (Kind::List(item), Form::List(items)) => {
            return list::read(setting, item, raw, items, found);
        }
        (Kind::Switch, Form::Switch(on)) => return Some(Value::Switch(*on)),
        (Kind::Integer { min, max }, Form::Integer(_, number)) => {
            number_within(*number, min, max).map(Value::Number)
        }
        (Kind::Size { min, max }, form) => size(form, min, max).map(Value::Number),
        (kind, Form::Text(text)) => from_text(kind, text),
        (kind, _) => Err(wrong_type(kind)),
    };
    match refused {
        Ok(value) => Some(value),
        Err((what, cure)) => {
            let what = format!("`{}` is {}, {what}", setting.name, raw.quoted_as(setting.kind));
            let cure = with_example(&cure, setting);
            found.add(raw.place.clone(), what, cure);
            None
        }
    }
}

/// `cure`, with the default as an example where it ends with "such as".
pub(super) fn with_example(cure: &str, setting: &Row) -> String {
    match (cure.strip_suffix(", such as"), setting.default) {
        (None, _) => cure.to_owned(),
        (Some(cure), None) => cure.to_owned(),
        (Some(_), Some(default)) => format!("{cure} {default}"),
    }
}

fn from_text(kind: Kind, text: &str) -> Result<Value, Refusal> {
    match kind {
        Kind::Word(words) => word(text, words).map(Value::Word),
        Kind::Time { min, max } => time(text, min, max).map(Value::Time),
        Kind::AddressOrOff if text == "off" => Ok(Value::Address(None)),
        Kind::RateOrOff if text == "off" => Ok(Value::Rate(None)),
        Kind::RateOrOff => {
            units::rate(text).map(|rate| Value::Rate(Some(rate))).ok_or_else(|| wrong_type(kind))
        }
        Kind::Address | Kind::AddressOrOff => address(text, kind).map(Some).map(Value::Address),
        Kind::Upstream => Upstream::parse(text).map(Value::Upstream).map_err(owned),
        Kind::Store => StoreChoice::parse(text).map(Value::Store),
        Kind::Keys => KeysFrom::parse(text).map(Value::Keys).map_err(owned),
        Kind::Namespace => checked(text, is_namespace(text), NAMESPACE),
        Kind::Host => checked(text, is_host(text), HOST),
        Kind::Path => checked(text, !text.is_empty() && !text.contains('\0'), PATH),
        Kind::Text => checked(text, !text.is_empty() && !text.contains(char::is_control), TEXT),
        // `Routes` knows which patterns it takes.
        Kind::Match => Ok(Value::Text(text.to_owned())),
        Kind::Source => text.parse().map(Value::Source).map_err(|_| owned(SOURCE)),
        Kind::Switch | Kind::Integer { .. } | Kind::Size { .. } | Kind::List(_) => {
            Err(wrong_type(kind))
        }
    }
}

const NAMESPACE: (&str, &str) =
    ("which is not a name", "write 1 to 64 letters, digits, dots, dashes or underscores, such as");
const HOST: (&str, &str) =
    ("which is not the name of a server", r#"write a name such as "api.example.com""#);
const TEXT: (&str, &str) = ("which is no text", "write at least one character");
const PATH: (&str, &str) = ("which is not a path", "write the path of a PEM file");
const SOURCE: (&str, &str) = (
    "which is not a place in a reply",
    r#"write "header:NAME" or "json:/pointer", such as "json:/id""#,
);

fn owned((what, cure): (&str, &str)) -> Refusal {
    (what.to_owned(), cure.to_owned())
}

fn checked(text: &str, is_good: bool, refusal: (&str, &str)) -> Result<Value, Refusal> {
    if is_good { Ok(Value::Text(text.to_owned())) } else { Err(owned(refusal)) }
}

fn wrong_type(kind: Kind) -> Refusal {
    owned(match kind {
        Kind::Switch => ("which is neither true nor false", "write true or false, without quotes"),
        Kind::Integer { .. } => {
            ("which is not a whole number", "write digits without quotes, such as")
        }
        Kind::Size { .. } => (
            "which is not a size",
            "write a whole number and one of B, KiB, MiB, GiB, kB, MB, GB, such as",
        ),
        Kind::Time { .. } => {
            ("which is not a duration", "write a whole number and one of ms, s, m, h, d, such as")
        }
        Kind::RateOrOff => (
            "which is not a rate",
            r#"write a whole number and one of /s, /m, /h, such as "100/s", or "off""#,
        ),
        Kind::List(_) => ("which is not a list", "put it in square brackets, such as"),
        Kind::Address | Kind::AddressOrOff => {
            ("which is not an address", "write ADDRESS:PORT in quotes, such as")
        }
        _ => ("which is not a text", "put it in quotes, such as"),
    })
}

fn word(text: &str, words: &'static [&'static str]) -> Result<&'static str, Refusal> {
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Ok(word);
    }
    let known = listed(words);
    let cure = match nearest(text, words.iter().copied()) {
        Some(meant) => format!("did you mean \"{meant}\"? It can be {known}"),
        None => format!("write {known}"),
    };
    Err(("which is not known here".to_owned(), cure))
}

/// `a, b or c`
pub(super) fn listed(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [one] => (*one).to_owned(),
        [head @ .., last] => format!("{} or {last}", head.join(", ")),
    }
}

fn number_within(number: Option<u64>, min: u64, max: u64) -> Result<u64, Refusal> {
    number.filter(|number| (min..=max).contains(number)).ok_or_else(|| out_of_range(min, max))
}

fn out_of_range(min: impl std::fmt::Display, max: impl std::fmt::Display) -> Refusal {
    (format!("and must be from {min} to {max}"), "choose a value within these limits".to_owned())
}

fn time(text: &str, min: &str, max: &str) -> Result<Duration, Refusal> {
    let duration =
        units::duration(text).ok_or_else(|| wrong_type(Kind::Time { min: "", max: "" }))?;
    let within = units::duration(min) <= Some(duration) && Some(duration) <= units::duration(max);
    if within { Ok(duration) } else { Err(out_of_range(min, max)) }
}

fn size(form: &Form, min: &str, max: &str) -> Result<u64, Refusal> {
    let bytes = match form {
        Form::Integer(_, Some(bytes)) => Some(*bytes),
        Form::Text(text) => units::size(text),
        _ => None,
    };
    let bytes = bytes.ok_or_else(|| wrong_type(Kind::Size { min: "", max: "" }))?;
    let within = units::size(min) <= Some(bytes) && Some(bytes) <= units::size(max);
    if within { Ok(bytes) } else { Err(out_of_range(min, max)) }
}

fn address(text: &str, kind: Kind) -> Result<SocketAddr, Refusal> {
    text.parse().map_err(|_| {
        let port = text.rsplit(':').next().filter(|port| port.parse::<u16>().is_ok());
        let cure = match port {
            Some(port) => format!(
                "write an IP address and a port: \"127.0.0.1:{port}\" for this machine only, \
                 \"0.0.0.0:{port}\" for all"
            ),
            None if kind == Kind::AddressOrOff => {
                "write \"off\", or an IP address and a port, such as".to_owned()
            }
            None => "write an IP address and a port, such as".to_owned(),
        };
        ("which is not an address".to_owned(), cure)
    })
}

fn is_namespace(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=64).contains(&text.len()) && text.bytes().all(known)
}
