//! Lists of values, each read and refused by itself.

use http::Method;
use http::header::{HeaderName, HeaderValue};
use semel_http::json::Pointer;
use semel_http::jwt::TokenAlgorithm;
use semel_http::{RoutePolicy, RoutePolicyFault, ScopeSource};

use super::fault::Found;
use super::raw::{Form, Raw};
use super::settings::{Item, Row};
use super::value::{Value, listed, with_example};

/// What follows "`name` has value, ", and the cure.
type Refusal = (&'static str, String);

/// Reads a list, or adds to `found` what is wrong with each item.
pub(super) fn read(
    setting: &Row,
    item: Item,
    raw: &Raw,
    items: &[Raw],
    found: &mut Found,
) -> Option<Value> {
    let value = match item {
        Item::KeySource => Value::KeySources(each(setting, items, found, key_source)?),
        Item::ScopeSource => Value::ScopeSources(each(setting, items, found, scope_source)?),
        Item::HeaderName => Value::HeaderNames(each(setting, items, found, header_name)?),
        Item::Method => Value::Methods(each(setting, items, found, method)?),
        Item::Algorithm => Value::Algorithms(each(setting, items, found, algorithm)?),
        Item::Audience => Value::Texts(each(setting, items, found, audience)?),
        Item::Pointer => Value::Pointers(each(setting, items, found, pointer)?),
        Item::Status => Value::Statuses(each(setting, items, found, status)?),
        Item::HeaderLine => Value::HeaderLines(each(setting, items, found, header_line)?),
    };
    let wrong = match &value {
        Value::KeySources(sources) if sources.is_empty() => {
            Some(("is empty", "name at least one place, such as"))
        }
        Value::Algorithms(algorithms) if algorithms.is_empty() => {
            Some(("is empty", r#"name what the issuer signs with, such as ["RS256"]"#))
        }
        Value::ScopeSources(sources) if sources.is_empty() => Some((
            "is empty",
            r#"name at least one source, or write ["global"] if all clients may share keys"#,
        )),
        Value::ScopeSources(sources)
            if sources.len() > 1 && sources.contains(&ScopeSource::Global) =>
        {
            Some(("has \"global\" beside others", "leave \"global\" out, or the others"))
        }
        _ => None,
    };
    let Some((what, cure)) = wrong else { return Some(value) };
    let what = format!("`{}` {what}", setting.name);
    found.add(raw.place.clone(), what, with_example(cure, setting));
    None
}

/// All items, unless one is refused.
fn each<T>(
    setting: &Row,
    items: &[Raw],
    found: &mut Found,
    read: fn(&str) -> Result<T, Refusal>,
) -> Option<Vec<T>> {
    let mut values = Vec::with_capacity(items.len());
    for item in items {
        let value = match &item.form {
            Form::Text(text) => read(text),
            _ => Err(("which is not a text", "put it in quotes".to_owned())),
        };
        match value {
            Ok(value) => values.push(value),
            Err((what, cure)) => {
                let what = format!("`{}` has {}, {what}", setting.name, item.quoted());
                found.add(item.place.clone(), what, with_example(&cure, setting));
            }
        }
    }
    (values.len() == items.len()).then_some(values)
}

fn key_source(text: &str) -> Result<semel_http::PartSource, Refusal> {
    text.parse().map_err(|_| {
        let cure = r#"write "header:NAME" or "json:/pointer""#;
        ("which is not a place of a key", cure.to_owned())
    })
}

fn scope_source(text: &str) -> Result<ScopeSource, Refusal> {
    text.parse().map_err(|_| {
        let cure =
            r#"write "auto", "header:NAME", "cookie:NAME", "jwt:CLAIM", "client-ip" or "global""#;
        ("which is not a source of identity", cure.to_owned())
    })
}

fn header_name(text: &str) -> Result<HeaderName, Refusal> {
    HeaderName::from_bytes(text.as_bytes()).map_err(|_| {
        ("which is not the name of a header", r#"write a name such as "x-tenant""#.to_owned())
    })
}

fn method(text: &str) -> Result<Method, Refusal> {
    let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    let method = Method::from_bytes(text.as_bytes()).ok().filter(|_| is_upper);
    let cure = || r#"write it in upper case, such as "PURGE""#.to_owned();
    match method {
        Some(Method::CONNECT) => Err(("which is not served", "leave it out".to_owned())),
        Some(method) => Ok(method),
        None => Err(("which is not a method in upper case", cure())),
    }
}

fn algorithm(text: &str) -> Result<TokenAlgorithm, Refusal> {
    text.parse().map_err(|_| {
        let cure = format!("write {}", listed(TokenAlgorithm::WORDS));
        ("which is not an algorithm that is known here", cure)
    })
}

fn audience(text: &str) -> Result<String, Refusal> {
    if text.is_empty() || text.contains(char::is_whitespace) {
        let cure = "write what tokens for this API have in the claim aud".to_owned();
        return Err(("which is not an audience", cure));
    }
    Ok(text.to_owned())
}

fn pointer(text: &str) -> Result<Pointer, Refusal> {
    if text.is_empty() {
        let cure = r#"name its members, such as "/sent_at""#.to_owned();
        return Err(("which stands for the whole body", cure));
    }
    Pointer::parse(text).map_err(|_| {
        let cure = r#"write "/" before each name, such as "/meta/sent_at" (~0 stands for "~", ~1 for "/")"#;
        ("which is not a JSON Pointer", cure.to_owned())
    })
}

fn status(text: &str) -> Result<semel_http::StatusPattern, Refusal> {
    text.parse().map_err(|_| {
        let cure = r#"write one such as "429", or a class such as "5xx""#.to_owned();
        ("which is not a status", cure)
    })
}

fn header_line(text: &str) -> Result<(HeaderName, HeaderValue), Refusal> {
    let parts = text.split_once(':').and_then(|(name, value)| {
        let name = HeaderName::from_bytes(name.trim().as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(value.trim()).ok()?))
    });
    let malformed = || ("which is not a header", r#"write "Name: value""#.to_owned());
    let line = parts.ok_or_else(malformed)?;
    // The policy knows which names a mark of a replay cannot have.
    match RoutePolicy::builder().replay_headers(vec![line.clone()]).build() {
        Err(error) if matches!(error.faults[..], [RoutePolicyFault::BadReplayHeader(_), ..]) => {
            Err(("which the reply itself may carry", "choose another name".to_owned()))
        }
        _ => Ok(line),
    }
}
