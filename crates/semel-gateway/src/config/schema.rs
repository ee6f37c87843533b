//! The JSON Schema of the file.

use std::fmt::Write as _;

use semel_http::jwt::TokenAlgorithm;

use super::settings::{self, Item, Kind, Row, Section};

/// The JSON Schema (draft 2020-12) of the configuration file, for editors.
pub fn schema() -> String {
    let mut members = vec![
        (String::from("$schema"), text("https://json-schema.org/draft/2020-12/schema")),
        (String::from("title"), text("Semel gateway")),
        (String::from("description"), text("The configuration file of the Semel gateway.")),
    ];
    let mut properties: Vec<_> = settings::of(Section::Top)
        .map(|setting| (setting.name.to_owned(), full(setting)))
        .collect();
    for section in Section::TABLES {
        properties.push((section.table().to_owned(), table(section)));
    }
    members.extend(closed_object(properties, &[]));
    let shared =
        settings::of(Section::Policy).map(|setting| (setting.name.to_owned(), bare(setting)));
    members.push((String::from("$defs"), Json::Object(shared.collect())));
    let mut out = String::new();
    Json::Object(members).write(&mut out, 0);
    out.push('\n');
    out
}

/// As much of JSON as a schema needs.
enum Json {
    /// JSON already.
    Verbatim(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

type Members = Vec<(String, Json)>;

fn table(section: Section) -> Json {
    let property = |setting: &Row| {
        let schema = match (setting.section, section) {
            // A route says what is special about it, and inherits the rest: it has no defaults.
            (Section::Policy, Section::Route) => Json::Object(vec![reference(setting)]),
            (Section::Policy, _) => {
                Json::Object(std::iter::once(reference(setting)).chain(default(setting)).collect())
            }
            _ => full(setting),
        };
        (setting.name.to_owned(), schema)
    };
    let properties = settings::of(section).map(property).collect();
    match section {
        Section::Route => {
            let item = Json::Object(closed_object(properties, &["match"]));
            object([("type", text("array")), ("items", item)])
        }
        _ => Json::Object(closed_object(properties, &[])),
    }
}

fn closed_object(properties: Members, required: &[&str]) -> Members {
    let mut members = vec![
        (String::from("type"), text("object")),
        (String::from("additionalProperties"), Json::Verbatim("false".to_owned())),
    ];
    if !required.is_empty() {
        members.push((String::from("required"), texts(required)));
    }
    members.push((String::from("properties"), Json::Object(properties)));
    members
}

fn reference(setting: &Row) -> (String, Json) {
    (String::from("$ref"), text(&format!("#/$defs/{}", setting.name)))
}

fn default(setting: &Row) -> Option<(String, Json)> {
    Some((String::from("default"), Json::Verbatim(setting.default?.to_owned())))
}

fn bare(setting: &Row) -> Json {
    let mut members = vec![(String::from("description"), text(setting.doc))];
    members.extend(of_kind(setting.kind));
    Json::Object(members)
}

fn full(setting: &Row) -> Json {
    match bare(setting) {
        Json::Object(members) => {
            Json::Object(members.into_iter().chain(default(setting)).collect())
        }
        other => other,
    }
}

const DURATION: &str = "^[0-9]+(ms|s|m|h|d)$";
const SIZE: &str = "^[0-9]+(B|KiB|MiB|GiB|kB|MB|GB)$";
const SOURCE: &str = "^(header:[!-9;-~]+|json:(/.*)?)$";

fn of_kind(kind: Kind) -> Members {
    let json = match kind {
        Kind::Word(words) => object([("enum", texts(words))]),
        Kind::Switch => object([("type", text("boolean"))]),
        Kind::Integer { min, max } => object([
            ("type", text("integer")),
            ("minimum", Json::Verbatim(min.to_string())),
            ("maximum", Json::Verbatim(max.to_string())),
        ]),
        Kind::Time { .. } => pattern(DURATION),
        Kind::Size { .. } => {
            let number =
                object([("type", text("integer")), ("minimum", Json::Verbatim("0".to_owned()))]);
            object([("anyOf", Json::List(vec![pattern(SIZE), number]))])
        }
        Kind::RateOrOff => pattern("^(off|[0-9]+/[smh])$"),
        Kind::Address => pattern("^.+:[0-9]+$"),
        Kind::AddressOrOff => pattern("^(off|.+:[0-9]+)$"),
        Kind::Upstream => pattern("^https?://[^@?#]+$"),
        Kind::Store => pattern("^(memory:|embedded:.+|postgres(ql)?://.+)$"),
        Kind::Namespace => pattern("^[A-Za-z0-9._-]{1,64}$"),
        Kind::Keys => pattern("^[^\\s].*$"),
        Kind::Host | Kind::Path | Kind::Text => {
            object([("type", text("string")), ("minLength", Json::Verbatim("1".to_owned()))])
        }
        Kind::Match => pattern(r"^(\*|[^a-z\s]+) +/\S*$"),
        Kind::Source => pattern(SOURCE),
        Kind::List(item) => list(item),
    };
    match json {
        Json::Object(members) => members,
        _ => Vec::new(),
    }
}

fn list(item: Item) -> Json {
    let (items, min) = match item {
        Item::KeySource => (pattern(SOURCE), "1"),
        Item::ScopeSource => {
            (pattern("^(auto|header:[!-9;-~]+|cookie:[!-~]+|jwt:.+|client-ip|global)$"), "1")
        }
        Item::HeaderName => (pattern("^[!-9;-~]+$"), "0"),
        Item::Method => (pattern("^[!-`{-~]+$"), "0"),
        Item::Algorithm => (object([("enum", texts(TokenAlgorithm::WORDS))]), "1"),
        Item::Audience => (pattern("^\\S+$"), "0"),
        Item::Pointer => (pattern("^/"), "0"),
        Item::Status => (pattern("^[2-5]([0-9][0-9]|xx)$"), "0"),
        Item::HeaderLine => (pattern("^[!-9;-~]+ *:"), "0"),
    };
    let min = Json::Verbatim(min.to_owned());
    object([("type", text("array")), ("items", items), ("minItems", min)])
}

fn pattern(pattern: &str) -> Json {
    object([("type", text("string")), ("pattern", text(pattern))])
}

fn object<const N: usize>(members: [(&str, Json); N]) -> Json {
    Json::Object(members.into_iter().map(|(name, json)| (name.to_owned(), json)).collect())
}

fn texts(texts: &[&str]) -> Json {
    Json::List(texts.iter().map(|one| text(one)).collect())
}

/// The texts of the table have nothing but quotes and backslashes to escape.
fn text(text: &str) -> Json {
    Json::Verbatim(format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"")))
}

// === impl Json ===

impl Json {
    fn write(&self, out: &mut String, depth: usize) {
        match self {
            Self::Verbatim(json) => out.push_str(json),
            Self::List(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { ", " });
                    item.write(out, depth);
                }
                out.push(']');
            }
            Self::Object(members) => {
                let indent = "  ".repeat(depth);
                for (number, (name, value)) in members.iter().enumerate() {
                    let start = if number == 0 { "{" } else { "," };
                    // Writing to a string cannot fail.
                    let _ = write!(out, "{start}\n{indent}  \"{name}\": ");
                    value.write(out, depth + 1);
                }
                let _ = write!(out, "\n{indent}}}");
            }
        }
    }
}
